"""A Kubernetes API, scheduler and kubelet in one process, for trying things out and for tests.

It answers the requests that JupyterHub, KubeSpawner and this project make, and allocates devices with the
same code that the simulator uses. It is no Kubernetes: there is no admission, no conversion between API
versions, no access control beyond one bearer token, and all data is gone when it ends.
"""
