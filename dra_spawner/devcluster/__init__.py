"""A Kubernetes API, scheduler and kubelet in one process, for demos and tests.

`embedded_cluster` connects packages that replace Kubernetes' programs: `api` (kube-apiserver and its storage),
`controllers` (kube-controller-manager), `scheduler` (kube-scheduler) and `kubelet`. `demo` is ``dra-spawner demo``.

It answers the requests of JupyterHub, KubeSpawner and this project, and allocates devices with the simulator's code.
Metadata, pods and all of ``resource.k8s.io`` have kube-apiserver's defaults, checks and messages. It is not a complete
Kubernetes: it has no admission plugins, no conversion between API versions, and no access control but one bearer token.
All data is lost when it ends.
"""
