"""A Kubernetes API, scheduler and kubelet in one process, for trying things out and for tests.

`embedded_cluster` puts it together, from rooms named after the programs they stand in for: `api` (kube-apiserver
and its storage), `controllers` (kube-controller-manager), `scheduler` (kube-scheduler) and `kubelet`. `demo` is
``dra-spawner demo``.

It answers the requests that JupyterHub, KubeSpawner and this project make, and allocates devices with the same code
that the simulator uses. What it stores it completes and checks in kube-apiserver's words where that matters here:
metadata, pods, and all of ``resource.k8s.io``. It is no Kubernetes: there are no admission plugins, no conversion
between API versions, no access control beyond one bearer token, and all data is gone when it ends.
"""
