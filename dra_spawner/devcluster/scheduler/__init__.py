"""kube-scheduler's part: which pod is next, where it goes, and which devices its claims get.

The decision itself is the simulator's; here are the loop around it (`scheduler`, `queue`, `hints`), what it knows of
the store (`cache`) and what it writes down (`claim_binding`, `pod_conditions`).
"""
