"""Checks of API objects, in kube-apiserver's words.

They cover metadata, claims and containers of pods, and all of ``resource.k8s.io``. `dra_spawner.devcluster.api.schema`
decodes the objects before, so their types are right.
"""
