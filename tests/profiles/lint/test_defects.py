"""A choice that meets a known defect of the cluster's version of Kubernetes is warned of; others are not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dra_spawner.kubernetes_defects import DEFECTS, KubernetesDefect, Meets, Program
from dra_spawner.profiles.facts import ClusterFacts
from tests.all_of_them import all_of_them
from tests.profiles.drivers.bed import Bed
from tests.profiles.lint.choices import check, profile

GPU = {"device_class": "gpu.example.com"}
SHARED = {**GPU, "shared": {"by": "everybody"}}
TEMPLATE = {"template": "made-by-others"}


def cluster(**more: Any) -> ClusterFacts:
    """One GPU with these fields, and the partition that counts as part of it."""
    counters = {"sharedCounters": [{"name": "card", "counters": {"memory": {"value": "2"}}}]}
    device = {"name": "gpu-0", "capacity": {"memory": {"value": "80Gi"}}, **more}
    return Bed("node", {"gpu.example.com": (counters, {"devices": [device]})}).facts()


CONSUMED = {"consumesCounters": [{"counterSet": "card", "counters": {"memory": {"value": "1"}}}]}
WHOLE, PARTITION = cluster(), cluster(**CONSUMED)
SHARED_PARTITION = cluster(**CONSUMED, allowMultipleAllocations=True)
#: For each thing that meets a defect: claims and a cluster that do, the place of the finding, and some that do not.
CASES: dict[Meets, tuple[Any, ClusterFacts, str, Any, ClusterFacts]] = {
    Meets.RUSH: ({"gpu": GPU}, WHOLE, "", {}, WHOLE),
    Meets.SHARED_AND_OWN: ({"a": SHARED, "b": GPU}, WHOLE, ".a", {"a": GPU, "b": GPU}, WHOLE),
    Meets.SHARED_PARTITIONS: ({"gpu": GPU}, SHARED_PARTITION, ".gpu", {"gpu": GPU}, PARTITION),
    Meets.ALL_OF_PARTITIONS: ({"gpu": {**GPU, "count": "all"}}, PARTITION, ".gpu", {"gpu": GPU}, PARTITION),
    Meets.PARTITIONS: ({"gpu": GPU}, PARTITION, ".gpu", {"gpu": GPU}, WHOLE),
    Meets.LATE_TEMPLATE: ({"gpu": TEMPLATE}, WHOLE, ".gpu", {"gpu": GPU}, WHOLE),
}
#: Only a cluster shows them: an administrator's rules, the size, or pods that wait.
OF_CLUSTERS = {Meets.TAINT_RULES, Meets.LARGE_CLUSTER, Meets.SEVERAL_TEMPLATES}
PLACE = "profile_list[0].kubespawner_override.device_claims"


def of(defect: KubernetesDefect, claims: Any, facts: ClusterFacts, patch: int | None) -> list[tuple[str, str]]:
    """Level and place of what is found about one defect, for each release that has it."""
    found = []
    for minor in defect.mended:
        versions: dict[str, Any] = {"kubernetes_version": minor, "kubernetes_patch": patch}
        if defect.program is Program.KUBELET:
            text = ".".join(map(str, minor)) + ("" if patch is None else f".{patch}")
            node = {"metadata": {"name": "old"}, "status": {"nodeInfo": {"kubeletVersion": f"v{text}"}}}
            versions = {"kubernetes_version": (1, 36), "nodes": (*(facts.nodes or ()), node)}
        findings = check([profile(claims)], replace(facts, **versions))
        found += [(each.level.value, each.path) for each in findings if defect.address in each.message]
    return found


@all_of_them("defect", {str(each.issue): each for each in DEFECTS if each.meets not in OF_CLUSTERS})
def test_a_choice_that_meets_a_defect_is_warned_of(defect: KubernetesDefect) -> None:
    claims, facts, place, others, sound = CASES[defect.meets]
    assert of(defect, claims, facts, 0) == [("warning", f"{PLACE}{place}")] * len(defect.mended)
    assert of(defect, others, sound, 0) == []
    if None not in defect.mended.values():
        assert of(defect, claims, facts, max(patch or 0 for patch in defect.mended.values())) == []
        assert of(defect, claims, facts, None) == []


def test_a_version_alone_stands_for_its_kubelets() -> None:
    version = ClusterFacts(kubernetes_version=(1, 34), kubernetes_patch=3)
    (message,) = [
        each.message for each in check([profile({"a": SHARED, "b": GPU})], version) if "kubelet" in each.message
    ]
    assert message.startswith("kubelet 1.34.3 has a known defect: ")
    assert "Upgrade kubelet to 1.34.4 or later." in message
