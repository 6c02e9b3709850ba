"""Checks of API objects, with kube-apiserver's words.

They cover metadata, claims and containers of pods, and all of ``resource.k8s.io``. Objects are decoded by
`dra_spawner.devcluster.api.schema` before, so their types are right.
"""
