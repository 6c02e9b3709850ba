"""Findings of `dra-spawner doctor` about zero-to-jupyterhub and this chart, as Helm renders them."""

from __future__ import annotations

from dra_spawner.common.json_types import JsonObject
from dra_spawner.doctor.examination import examine
from dra_spawner.doctor.facts import DoctorFacts, ServiceSettings
from tests.all_of_them import all_of_them
from tests.chart.rendering import IMAGE, hub_values, rendered
from tests.chart.z2jh import VERSIONS, merged, z2jh_objects

BASE: JsonObject = {"hub": {"baseUrl": "/jupyter"}}
_RULES: JsonObject = {"networkPolicy": {"egressAllowRules": {"privateIPs": False}}}
PRIVATE_CLOSED: JsonObject = {"hub": _RULES, "proxy": {"chp": _RULES}}
PLACEHOLDERS: JsonObject = {"placeholders": {"enabled": True}}


def facts(hub: list[JsonObject], service: list[JsonObject]) -> DoctorFacts:
    """Facts about the rendered objects, as if their pods ran."""
    objects = [*hub, *service]

    def of_kind(kind: str) -> tuple[JsonObject, ...]:
        return tuple(each for each in objects if each["kind"] == kind)

    pods = []
    for number, each in enumerate((*of_kind("Deployment"), *of_kind("StatefulSet"))):
        if each["spec"].get("replicas") == 0:
            continue
        template = each["spec"]["template"]
        metadata = {"name": f"{each['metadata']['name']}-0", "labels": template["metadata"]["labels"]}
        pods.append({"metadata": metadata, "spec": template["spec"], "status": {"podIP": f"10.0.0.{number}"}})
    classes = frozenset(each["metadata"]["name"] for each in of_kind("PriorityClass"))
    return DoctorFacts(
        "hub",
        hub_namespace_pods=tuple(pods),
        deployments=of_kind("Deployment"),
        daemon_sets=of_kind("DaemonSet"),
        services=of_kind("Service"),
        network_policies=of_kind("NetworkPolicy"),
        priority_classes=classes,
        settings=ServiceSettings(priority_class="dra-spawner-hub.dra-spawner-placeholder"),
    )


def codes(hub: list[JsonObject], service: list[JsonObject]) -> list[tuple[str, str]]:
    return [(each.code, each.severity.value) for each in examine(facts(hub, service))]


@all_of_them("version", VERSIONS)
def test_each_version_of_the_chart(version: str) -> None:
    """One rendering of each is enough: the findings are about its parts."""
    service = rendered(merged(IMAGE, PLACEHOLDERS), namespace="hub")
    below = rendered(merged(IMAGE, PLACEHOLDERS, BASE), namespace="hub")
    plain = z2jh_objects(version, PRIVATE_CLOSED)
    scheduler = "warning" if version == "main" else "error"
    found = codes(plain, service)
    # The way to the service is closed, and the chart's scheduler runs.
    assert ("user-scheduler", scheduler) in found
    assert found.count(("network-policy", "error")) == 2
    assert {code for code, _ in found} <= {"user-scheduler", "network-policy", "chart-version"}
    assert ("base-url", "error") in codes(plain, below)
    # With the values that the notes print nothing is wrong.
    printed = hub_values(merged(IMAGE, PLACEHOLDERS))
    off: JsonObject = {"scheduling": {"userScheduler": {"enabled": False}}}
    mended = codes(z2jh_objects(version, merged(PRIVATE_CLOSED, printed, off)), service)
    assert {severity for _, severity in mended} <= {"info"}
