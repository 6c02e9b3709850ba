"""Settings of the service about its cluster: where the API server is, and how nodes are named."""

from __future__ import annotations

from traitlets import HasTraits, List, Unicode

from dra_spawner import names
from dra_spawner.kube.client.connect import ClusterAddress


class ClusterTraits(HasTraits):
    """Mixed into the application."""

    kubeconfig = Unicode(
        help="Kubeconfig file; by default the pod's service account, and `$KUBECONFIG` where none is mounted."
    ).tag(config=True)
    kube_server = Unicode(
        help="URL of the API server, instead of a kubeconfig: with `kube_token_file` and `kube_certificate_authority`."
    ).tag(config=True)
    kube_token_file = Unicode(
        help="File with a token for the API server, read again every minute; by default the pod's service account's."
    ).tag(config=True)
    kube_certificate_authority = Unicode(
        help="File with the API server's certificate authority; by default the pod's service account's."
    ).tag(config=True)

    node_pool_labels = List(
        Unicode(),
        default_value=[
            names.NODE_POOL,
            "cloud.google.com/gke-nodepool",
            "eks.amazonaws.com/nodegroup",
            "kubernetes.azure.com/agentpool",
            "karpenter.sh/nodepool",
            names.INSTANCE_TYPE,
        ],
        help="""
        Labels that name the pool of a node; the first one that a node has counts. Metrics are by pool, as there may be
        thousands of nodes.
        """,
    ).tag(config=True)

    def cluster_address(self) -> ClusterAddress:
        """Where the cluster is."""
        return ClusterAddress(
            self.kubeconfig, "", self.kube_server, self.kube_token_file, self.kube_certificate_authority
        )
