"""Each right that the chart grants, with each feature on and off, beside what the code asks with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.doctor.facts import Account
from dra_spawner.doctor.installation import settings_of
from dra_spawner.doctor.needed_rights import needed_rights
from dra_spawner.kube.cluster_watch import RESOURCES
from tests.chart.granted_rights import granted
from tests.chart.rendering import EVERYTHING, IMAGE, of_kind, rendered

HUB_NAMESPACE = "jupyterhub"
ROOT = Path(__file__).parents[2] / "dra_spawner"
DRA, WATCH, NETWORKS = names.RESOURCE_GROUP, "list watch", "network-attachment-definitions"


@dataclass(frozen=True, slots=True)
class Features:
    """What an installation has switched on."""

    placeholders: bool = False
    users: bool = False
    idle: bool = False
    tickets: str = ""
    """Namespace of the queue; empty without one."""
    hub: tuple[str, ...] = ()
    """Keys of ``rbac.hub``."""

    @property
    def values(self) -> JsonObject:
        config: JsonObject = {}
        if self.tickets:
            config |= {"tickets": True, "tickets_namespace": self.tickets}
        if self.idle:
            config["idle_servers"] = {"policies": {"*": {"after_minutes": 60}}}
        return {
            **IMAGE,
            "placeholders": {"enabled": self.placeholders},
            "userNamespaces": self.users,
            "rbac": {"hub": dict.fromkeys(self.hub, True)},
            "service": {"config": config},
        }


def own(on: Features) -> str:
    return HUB_NAMESPACE


@dataclass(frozen=True, slots=True)
class Row:
    """What one module asks.

    Attributes
    ----------
    where
        Of the features: a namespace, or empty for all.
    name
        Of the only object; empty for all.
    """

    module: str
    account: Account
    resource: str
    verbs: str
    group: str = ""
    when: Callable[[Features], object] = lambda on: True
    where: Callable[[Features], str] = own
    name: str = ""


def cluster(on: Features) -> str:
    return ""


def placeholders(on: Features) -> bool:
    return on.placeholders


def users(on: Features) -> bool:
    return on.users


def queue(on: Features) -> str:
    return on.tickets


def networks(on: Features) -> bool:
    return "networkAttachments" in on.hub


def both(on: Features) -> bool:
    return on.users and on.placeholders


S, H = Account.SERVICE, Account.HUB
C = "placeholders/controller"
OBJECTS, TICKETS, MULTUS = "create list patch delete", names.TICKETS_CONFIG_MAP, "k8s.cni.cncf.io"
WEBHOOKS = ("validatingwebhookconfigurations", "list", "admissionregistration.k8s.io")
TABLE = (
    *(Row("kube/cluster_watch.py", S, each.plural, WATCH, each.group, where=cluster) for each in RESOURCES.values()),
    Row("kube/leader.py", S, "leases", "create", names.COORDINATION_GROUP),
    Row("kube/leader.py", S, "leases", "get update", names.COORDINATION_GROUP, name="dra-spawner"),
    Row("service/leader_label.py", S, "pods", "patch"),
    # Idle servers, and servers for which placeholders are preempted, in namespaces of users.
    Row("service/idle/idle_servers.py", S, "pods", "patch", "", lambda on: on.users and on.idle, cluster),
    Row(f"{C}/round/executor.py", S, "pods", "patch", "", both, cluster),
    Row(
        f"{C}/sources/server_namespaces.py", S, "namespaces", WATCH, "", lambda on: both(on) or (on.users and on.idle), cluster,
    ),
    Row(f"{C}/sources/shapes_source.py", S, "configmaps", WATCH, when=placeholders, name=names.SHAPES_CONFIG_MAP),
    Row(
        f"{C}/sources/override_store.py", S, "configmaps", "get list watch update", when=placeholders, name=names.SETTINGS_CONFIG_MAP,
    ),
    Row(f"{C}/round/executor.py", S, "pods", "create delete patch", "", placeholders),
    Row(f"{C}/round/executor.py", S, "resourceclaims", "create delete get patch", DRA, placeholders),
    Row(f"{C}/round/executor.py", S, "resourceclaims/status", "patch", DRA, placeholders),
    Row(f"{C}/round/executor.py", S, "resourceclaims/binding", "patch", DRA, placeholders, cluster),
    Row(f"{C}/round/executor.py", S, "nodes", "patch", "", placeholders, cluster),
    Row(f"{C}/round/drained_devices.py", S, "devicetaintrules", "create update delete", DRA, placeholders, cluster),
    Row(f"{C}/round/cluster_limits.py", S, "resourcequotas", WATCH, "", placeholders),
    Row(f"{C}/round/cluster_limits.py", S, "events", "list", "", placeholders),
    *(
        Row(f"{C}/records/event_recorder.py", S, "events", "create patch", names.EVENTS_GROUP, placeholders, where)
        for where in (own, lambda on: "default")
    ),
    Row("service/tickets/followed_tickets.py", S, "configmaps", "get list watch update", "", queue, queue, TICKETS),
    Row("ticket_store/ticket_store.py", H, "configmaps", "create", "", queue, queue),
    Row("ticket_store/ticket_store.py", H, "configmaps", "get update", "", queue, queue, TICKETS),
    *(
        Row("spawner/objects/api_objects.py", H, each, OBJECTS, DRA, when, where)
        for each in ("resourceclaims", "resourceclaimtemplates")
        for when, where in ((lambda on: True, own), (users, cluster))
    ),
    Row("spawner/devices/facts_reading.py", H, "namespaces", "get"),
    Row("spawner/hub_start/shape_publication.py", H, "configmaps", "create"),
    Row("spawner/hub_start/shape_publication.py", H, "configmaps", "get update", name=names.SHAPES_CONFIG_MAP),
    Row("spawner/accounts/vlan_leases.py", H, "configmaps", "get update", name=names.VLANS_CONFIG_MAP),
    *(
        Row("spawner/devices/reader.py", H, each, "list", DRA, where=cluster)
        for each in ("deviceclasses", "resourceslices", "resourceclaims", "devicetaintrules")
    ),
    Row("spawner/devices/reader.py", H, "nodes", "list", where=cluster),
    Row("spawner/devices/facts_reading.py", H, *WEBHOOKS, lambda on: "webhooks" in on.hub, cluster),
    Row("spawner/devices/facts_reading.py", H, NETWORKS, "list", MULTUS, networks, cluster),
    Row("spawner/steps/vlan.py", H, NETWORKS, OBJECTS, MULTUS, lambda on: networks(on) and not on.users),
    Row(
        "spawner/steps/vlan.py", H, NETWORKS, "create patch delete", MULTUS, lambda on: networks(on) and on.users, cluster,
    ),
    Row("spawner/accounts/intel_gas_ledger.py", H, "pods", "list", "", lambda on: "allPods" in on.hub, cluster),
    # What KubeSpawner asks in namespaces of users.
    Row("spawner/hub_parts/own_namespaces.py", H, "namespaces", "create list", "", users, cluster),
    Row("spawner/spawner.py", H, "pods", "get watch list create delete", "", users, cluster),
    Row("spawner/spawner.py", H, "persistentvolumeclaims", "get create delete", "", users, cluster),
    Row("spawner/spawner.py", H, "events", "watch list", "", users, cluster),
    *(
        Row("spawner/spawner.py", H, each, "create delete", "", lambda on: "userSecrets" in on.hub, cluster)
        for each in ("secrets", "services")
    ),
)  # fmt: skip


def combinations() -> Iterator[Features]:
    """Features of service, and each right of the hub's by itself, that the chart takes together."""
    for with_placeholders, with_users, idle in product((False, True), repeat=3):
        for tickets in ("", HUB_NAMESPACE, "shared") if with_placeholders else ("",):
            yield Features(with_placeholders, with_users, idle, tickets)
    for with_users in (False, True):
        keys = tuple(EVERYTHING["rbac"]["hub"])
        for hub in (*((each,) for each in keys), keys):
            if with_users or "userSecrets" not in hub:
                yield Features(users=with_users, hub=hub)


def asked(on: Features) -> set[tuple[str, ...]]:
    return {
        (row.account.name, row.group, row.resource, verb, row.where(on), row.name)
        for row in TABLE
        if row.when(on)
        for verb in row.verbs.split()
    }


def test_the_chart_grants_what_the_code_asks_and_nothing_else() -> None:
    wrong = []
    assert not [row.module for row in TABLE if not (ROOT / row.module).exists()]
    for on in combinations():
        objects = rendered(on.values, namespace=HUB_NAMESPACE)
        found = {
            (
                H.name if each.account.endswith(":hub") else S.name,
                each.group,
                each.resource,
                each.verb,
                each.namespace,
                each.name,
            )
            for each in granted(objects)
        }
        wanted = asked(on)
        # Doctor asks for the same, but for what only some profiles or hubs need, and KubeSpawner's own rights.
        settings = settings_of(of_kind(objects, "ConfigMap", "dra-spawner-service")["data"]["config.json"])
        doctor = {
            (each.account.name, each.group, each.resource, each.verb, each.namespace, each.name)
            for each in needed_rights(HUB_NAMESPACE, settings)
            if each.account is S
        }
        of_service = {each for each in wanted if each[0] == S.name}
        wrong += [f"{on}: not granted: {each}" for each in sorted(wanted - found)]
        wrong += [f"{on}: granted for nothing: {each}" for each in sorted(found - wanted)]
        wrong += [f"{on}: doctor: {each}" for each in sorted(doctor ^ of_service)]
    assert not wrong, "\n".join(wrong)
