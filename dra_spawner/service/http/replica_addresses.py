"""Where other replicas of the service answer. The Lease says it, which others may write: it is not believed as it is.

An address is one only if it is this replica's own with another host, and that host is a pod like this replica's own:
of the same namespace, labels and service account, none of which users choose. A replica that is no pod, as in
development, has only others on its own machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final
from urllib.parse import SplitResult, urlsplit

from dra_spawner import names
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.kube.observed import ObservedObject
from dra_spawner.simulator.cluster_objects import Kind

__all__ = ["ReplicaAddresses"]

#: Labels by which controllers tell the pods of one workload from another, or the old ones from the new.
_OF_EACH: Final = frozenset(
    (
        "pod-template-hash",
        "controller-revision-hash",
        names.STATEFUL_SET_POD,
        names.STATEFUL_SET_INDEX,
    )
)


@dataclass(frozen=True, slots=True)
class ReplicaAddresses:
    """See the module.

    Attributes
    ----------
    watch
        Knows the pods; None while the cluster is not found.
    namespace
        Where the replicas are.
    own_url, said_url
        Of this replica, and of the leader as the Lease says; empty if there is none.
    """

    watch: ClusterWatch | None
    namespace: str = ""
    own_url: str = ""
    said_url: str = ""

    @property
    def own_authority(self) -> str:
        """Host and port by which this replica is known to the others; empty if it is not."""
        return urlsplit(self.own_url).netloc

    @property
    def leader_url(self) -> str:
        """Where the leader answers, with prefix and a slash at the end; empty if no replica does there."""
        is_known = bool(self.own_url and self.said_url)
        return self.said_url if is_known and self._is_replica(self.said_url, urlsplit(self.own_url)) else ""

    @property
    def problem(self) -> str:
        """Why the leader is not asked, although the Lease says where it answers; empty if it is."""
        if not self.own_url or not self.said_url or self.leader_url:
            return ""
        return (
            f"The Lease says that the leader answers at {self.said_url!r:.200}, where no pod like this one is: nothing "
            "is passed on to it."
        )

    def _is_replica(self, url: str, own: SplitResult) -> bool:
        try:
            parts = urlsplit(url)
            host, own_host = _host(parts), _host(own)
            is_local = own_host.is_loopback and host.is_loopback
            port = parts.port if is_local else own.port
            # No part that could be written otherwise: no user, no query, no other path.
            if url != _written(own.scheme, host, port, own.path):
                return False
        except ValueError:
            return False
        return is_local or (own_host.is_loopback == host.is_loopback and self._is_like_own_pod(host, own_host))

    def _is_like_own_pod(self, host: IPv4Address | IPv6Address, own_host: IPv4Address | IPv6Address) -> bool:
        own = list(self._pods_at(own_host))
        # Of two pods with the address of this one it cannot be told which it is.
        return len(own) == 1 and any(_are_alike(own[0], each) for each in self._pods_at(host))

    def _pods_at(self, host: IPv4Address | IPv6Address) -> Iterator[ObservedObject]:
        """Pods of the own namespace that have an address and have not ended."""
        if self.watch is None:
            return
        for key, pod in self.watch.observed_of(Kind.POD).items():
            if key.namespace == self.namespace and pod.address == str(host):
                modelled = self.watch.snapshot.pods.get(key)
                if modelled is not None and not modelled.is_finished:
                    yield pod


def _host(parts: SplitResult) -> IPv4Address | IPv6Address:
    return ip_address(parts.hostname or "")


def _written(scheme: str, host: IPv4Address | IPv6Address, port: int | None, path: str) -> str:
    shown = f"[{host}]" if host.version == 6 else str(host)
    return f"{scheme}://{shown}:{port}{path}"


def _are_alike(one: ObservedObject, other: ObservedObject) -> bool:
    return one.account == other.account and _own_labels(one) == _own_labels(other)


def _own_labels(pod: ObservedObject) -> dict[str, str]:
    return {name: value for name, value in pod.labels.items() if name not in _OF_EACH}
