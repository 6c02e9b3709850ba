"""kube-scheduler's part: the next pod, its node, and the devices of its claims.

The simulator decides. This package has the loop (`scheduler`, `queue`), the view of the store (`cache`) and
the writes (`claim_binding`).
"""
