"""The embedded kubelet: pods become local processes, or get fake containers.

`kubelet` watches for pods that are bound to its nodes and gives each to a `pod_worker`; `node_agent` keeps the Node
objects. It works over the Kubernetes API alone, so it serves the embedded cluster and a real control plane alike.
"""
