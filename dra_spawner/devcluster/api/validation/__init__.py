"""Checks of API objects, with kube-apiserver's words.

They cover what users of this project meet: metadata, pods as far as claims and containers go, and all of
``resource.k8s.io``.  Objects have been through `dra_spawner.devcluster.api.schema` first, so types are right.
"""
