"""Each rule on the test beds: its findings with path and words; and that sound choices have none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dra_spawner.common.json_types import JsonObject
from dra_spawner.dra.model.objects import DeviceClass, Taint
from dra_spawner.dra.model.taint_rules import DeviceTaintRule
from dra_spawner.profiles.choices import list_choices
from dra_spawner.profiles.facts import ClusterFacts
from dra_spawner.profiles.findings import Level
from dra_spawner.profiles.lint import RULES, Inventory, check_choice, check_choices, never_text
from tests.all_of_them import all_of_them
from tests.presence import present
from tests.profiles.drivers.bed import Bed
from tests.profiles.drivers.beds import FACTS
from tests.profiles.lint.choices import OWN, check, found, profile
from tests.profiles.lint.shares import facts as shared_gpus

GPU = {"device_class": "gpu.nvidia.com"}
NIC = {"device_class": "dranet"}
EXAMPLE = {"device_class": "gpu.example.com"}
ROOT = "resource.kubernetes.io/pcieRoot"
MIG = DeviceClass(
    "mig.nvidia.com", ("device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'",)
)
CLAIMS = "profile_list[0].kubespawner_override.device_claims"


def where(expression, driver="gpu.nvidia.com"):
    return {**GPU, "where": expression.replace("OWN", f'device.attributes["{driver}"]')}


def raw(**exactly):
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", **exactly}}
    return {"spec": {"devices": {"requests": [request]}}}


def pair(attribute, gpus=1, nics=1, **more):
    requests = {"gpu": {**GPU, "count": gpus}, "nic": {**NIC, "count": nics}}
    return {"x": {"requests": requests, "constraints": [{"match_attribute": attribute}], **more}}


SOUND = [
    pytest.param("a100-efa", {"gpu": {**GPU, "product": "*A100*", "min_memory": "40Gi"}}, id="words"),
    pytest.param("a100-efa", {"gpu": where("has(OWN.productName) && OWN.productName == 'NVIDIA A100-SXM4-40GB'")}, id="guarded"),
    pytest.param("a100-efa", {"gpu": where('"serial" in OWN || device.driver == "gpu.nvidia.com"')}, id="presence alone"),
    pytest.param("a100-efa", {"gpu": {**GPU, "count": 8}}, id="all of a node"),
    pytest.param("a100-efa", pair(ROOT), id="gpu and nic on one root"),
    pytest.param("a100-efa", pair(ROOT, gpus=2), id="two gpus on one root"),
    pytest.param("gb300", {"gpu": {**GPU, "count": "all"}}, id="every one"),
    pytest.param("mi300x", {"gpu": {"device_class": "gpu.amd.com"}}, id="amd"),
]  # fmt: skip


@pytest.mark.parametrize(("bed", "claims"), SOUND)
def test_sound_choices_are_left_alone(bed, claims):
    assert found(claims, FACTS[bed]) == []


def test_beds_exist():
    assert {case.values[0] for case in SOUND} <= set(FACTS)


E_, W_, I_ = "error", "warning", "info"
# Bed, claims, and the finding: level, rule, path below the claims, part of the message.
TABLE = [
    pytest.param("a100-efa", {"gpu": {"device_class": "gpu.nvidia.co"}}, (E_, "device-class", ".gpu.device_class", "there are gpu.nvidia.com"), id="class misspelt"),
    pytest.param("a100-efa", {"gpu": {"device_class": "gpu.intel.com"}}, (W_, "no-devices", ".gpu.device_class", "publishes a device of class gpu.intel.com now"), id="nothing of the class"),
    pytest.param("a100-efa", {"gpu": where("OWN.index == 0")}, (E_, "selector-fails", ".gpu.where", 'put has(device.attributes["gpu.nvidia.com"].index) && before it'), id="attribute that was dropped"),
    pytest.param("a100-efa", {"gpu": {**GPU, "where": ["true", 'device.capacity["gpu.nvidia.com"].cores.isGreaterThan(quantity("1"))']}}, (E_, "selector-fails", ".gpu.where[1]", "capacity gpu.nvidia.com/cores"), id="capacity nobody has"),
    pytest.param("a100-efa", {"gpu": raw(selectors=[{"cel": {"expression": 'device.attributes["gpu.nvidia.com"].index == 0'}}])}, (E_, "selector-fails", ".gpu.spec.devices.requests[0].exactly.selectors[0].cel.expression", "index"), id="raw spec"),
    pytest.param("a100-efa", {"gpu": where("OWN.productName > 5")}, (E_, "selector-fails", ".gpu.where", "this CEL fails on device gpu.nvidia.com/a100-efa/gpu-0"), id="types that do not go together"),
    pytest.param("a100-efa", {"gpu": where('"productNam" in OWN && OWN.productNam == "x" || true')}, (W_, "unpublished-attribute", ".gpu.where", "there are productName"), id="name nobody publishes, guarded"),
    pytest.param("a100-efa", {"gpu": where('"gpu.nvidia.com/uuid" in device.attributes || true')}, (E_, "qualified-key", ".gpu.where", 'device.attributes["gpu.nvidia.com"].uuid'), id="domain and name in one key"),
    pytest.param("a100-efa", {"gpu": {**GPU, "capacity": {"mem": "1Gi"}}}, (E_, "unknown-capacity", ".gpu.capacity.mem", "names count as published: memory"), id="capacity misspelt"),
    pytest.param("a100-efa", {"gpu": raw(capacity={"requests": {"mem": "1Gi"}})}, (E_, "unknown-capacity", ".gpu.spec.devices.requests[0].exactly.capacity.requests.mem", "memory"), id="capacity misspelt in a raw spec"),
    pytest.param("a100-efa", {"gpu": {**GPU, "capacity": {"memory": "10Gi"}}}, (W_, "whole-device", ".gpu.capacity", "cannot be shared"), id="capacity of a whole device"),
    pytest.param("a100-efa", {"gpu": {**GPU, "capacity": {"memory": "80Gi"}}}, (E_, "share-too-large", ".gpu.capacity.memory", "most is 40Gi"), id="more than there is"),
    pytest.param("a100-efa", {"gpu": {**GPU, "product": "H100*", "min_memory": "1Gi"}}, (E_, "never-fits", ".gpu", "none of the 8 devices of class gpu.nvidia.com is what this asks for (product: H100*)"), id="product nobody has"),
    pytest.param("a100-efa", {"gpu": {**GPU, "count": 9}}, (E_, "never-fits", ".gpu", "only 8 of 9 devices"), id="more than a node has"),
    pytest.param("a100-efa", {"gpu": {"first_available": {"h": {**GPU, "product": "H100*"}, "a": GPU}}}, (W_, "never-fits", ".gpu.first_available.h", "this alternative is never chosen"), id="alternative nobody has"),
    pytest.param("a100-efa", {"gpu": {"first_available": [{"name": "h", **GPU, "capacity": {"mem": "1"}}, {"name": "a", **GPU}]}}, (W_, "unknown-capacity", ".gpu.first_available[0].capacity.mem", "memory"), id="alternative with an unknown capacity"),
    pytest.param("gb200", pair(ROOT), (E_, "no-common-value", ".x.constraints[0]", "no node has devices for gpu and nic with the same"), id="roots that never meet"),
    pytest.param("gb300", pair(ROOT), (E_, "no-common-value", ".x.constraints[0]", f"no device that nic can get publishes {ROOT}"), id="cards without a root"),
    pytest.param("a100-efa", pair(ROOT, gpus=3), (E_, "too-few-alike", ".x.constraints[0]", "4 devices are to have the same"), id="three on a root of two"),
    pytest.param("a100-efa", {"x": {"requests": {"a": GPU, "b": {**GPU, "count": 2}}, "constraints": [{"match_attribute": ROOT}]}}, (E_, "too-few-alike", ".x.constraints[0]", "on no node more than 2 have"), id="three in two requests"),
    pytest.param("a100-efa", {"gpu": {**GPU, "admin_access": True}}, (I_, "admin-access", ".gpu.admin_access", "only administrators"), id="administrators only"),
]  # fmt: skip


@pytest.mark.parametrize(("bed", "claims", "expected"), TABLE)
def test_a_finding_has_level_rule_path_and_message(bed, claims, expected):
    findings = check([profile(claims)], FACTS[bed])
    level, rule, below, part = expected
    assert [(finding.level.value, finding.rule, finding.path) for finding in findings] == [
        (level, rule, f"{CLAIMS}{below}")
    ]
    assert part in findings[0].message


@pytest.mark.parametrize(
    ("bed", "claims", "level"),
    [
        ("a100-efa", {"gpu": {**GPU, "product": "H100*"}}, W_),
        ("a100-efa", {"gpu": {**GPU, "capacity": {"memory": "80Gi"}}}, W_),
        ("gb200", pair(ROOT), W_),
        ("a100-efa", {"gpu": {"device_class": "gpu.nvidia.co"}}, E_),
        ("a100-efa", {"gpu": where("OWN.index == 0")}, E_),
    ],
)
def test_a_finding_that_new_nodes_could_fix_is_a_warning_where_nodes_may_be_added(bed, claims, level):
    ((found_level, _),) = found(claims, replace(FACTS[bed], nodes_may_be_added=True))
    assert found_level == level


def with_nodes(facts: ClusterFacts, **allocatable: str) -> ClusterFacts:
    return replace(facts, nodes=tuple({**node, "status": {"allocatable": allocatable}} for node in facts.nodes or ()))


#: Bed, claims, other settings, and what the user reads.
IMPOSSIBLE = {
    "devices": ("a100-efa", {"gpu": {**GPU, "count": 9}}, {}, "it asks for 9 such devices, and the machine with most of them has 8"),
    "memory": ("a100-efa", {"gpu": {**GPU, "capacity": {"memory": "80Gi"}}}, {}, "it asks for 80 GiB of memory, and the largest such device has 40 GiB"),
    "selector": ("a100-efa", {"gpu": {**GPU, "product": "H100*"}}, {}, "no machine has a device of the kind that it asks for"),
    "attribute": ("gb200", pair(ROOT), {}, "no machine has devices that belong together in the way that it asks for"),
    "alike": ("a100-efa", pair(ROOT, gpus=3), {}, "no machine has devices that belong together in the way that it asks for"),
    "partition": ("a100-efa", {"gpu": {"device_class": "mig.nvidia.com"}}, {}, "no machine has a device of the kind that it asks for"),
    "memory beside": ("a100-efa", {"gpu": GPU}, {"mem_guarantee": "9000G"}, "it asks for more memory or processors than any machine with such devices has"),
    "processors beside": ("a100-efa", {"gpu": GPU}, {"cpu_limit": 5000}, "it asks for more memory or processors than any machine with such devices has"),
    "second container": ("a100-efa", {"gpu": GPU}, {"extra_containers": [{"name": "db", "resources": {"requests": {"memory": "9Ti"}}}]}, "it asks for more memory or processors than any machine with such devices has"),
}  # fmt: skip


@all_of_them("bed, claims, settings, text", IMPOSSIBLE)
def test_what_no_device_can_give_is_an_error_with_a_text_for_users(bed, claims, settings, text):
    """A warning where devices may come, or are not all published."""
    facts = with_nodes(FACTS[bed], cpu="96", memory="2Ti")
    facts = replace(facts, device_classes={**(facts.device_classes or {}), MIG.name: MIG})
    (listed,) = list_choices([profile(claims)], settings)
    assert listed.choice is not None
    levels = {}
    for name, known in {
        "complete": facts,
        "autoscaler": replace(facts, nodes_may_be_added=True),
        "starting": replace(facts, unpublished="node a is not ready, and publishes no device"),
    }.items():
        inventory = Inventory(known)
        finding = next(each for each in check_choice(listed.choice, inventory) if each.rule in OWN)
        levels[name] = finding.level.value
        assert never_text(listed.choice, finding, inventory) == text
    assert levels == {"complete": E_, "autoscaler": W_, "starting": W_}


@all_of_them(
    "settings", [{"mem_guarantee": "1G"}, {"cpu_guarantee": 96}, {"mem_limit": "nonsense"}, {"cpu_limit": True}]
)
def test_what_a_node_has_beside_its_devices_is_left_alone(settings):
    assert found({"gpu": GPU}, with_nodes(FACTS["a100-efa"], cpu="96", memory="1Gi"), **settings) == []


def test_shares_are_rounded_as_the_policy_says():
    claims = {"gpu": {**EXAMPLE, "capacity": {"memory": "12Gi", "compute": 10}}}
    (finding,) = check([profile(claims)], shared_gpus(step="5Gi"))
    assert (finding.rule, finding.path) == ("share-rounded", f"{CLAIMS}.gpu.capacity.memory")
    assert finding.message.startswith("15Gi of memory will be reserved")
    claims = {"gpu": {**EXAMPLE, "capacity": {"memory": "10Gi", "compute": 10}}}
    assert check([profile(claims)], shared_gpus(step="5Gi")) == []


def test_a_share_takes_the_whole_of_a_capacity_without_a_size():
    (finding,) = check([profile({"gpu": {**EXAMPLE, "capacity": {"memory": "10Gi"}}})], shared_gpus())
    assert (finding.level, finding.rule, finding.path) == (Level.WARNING, "whole-capacity", f"{CLAIMS}.gpu.capacity")
    assert "capacity compute" in finding.message
    rules = [finding.rule for finding in check([profile({"gpu": EXAMPLE})], shared_gpus())]
    assert rules == ["whole-capacity", "whole-capacity"]


def test_a_share_above_the_policys_maximum():
    claims = {"gpu": {**EXAMPLE, "capacity": {"memory": "30Gi", "compute": 1}}}
    (finding,) = check([profile(claims)], shared_gpus(most="20Gi"))
    assert (finding.rule, "most is 20Gi" in finding.message) == ("share-too-large", True)


@all_of_them(
    "bed, memory, words",
    {
        "an eighth of 80 GB": (
            "h100-memory-shares",
            "10Gi",
            ("7 such shares fit, and 9879Mi are left", "with 10194Mi each 8 fit"),
        ),
        "a quarter": ("h100-memory-shares", "20Gi", ("3 such shares fit", "with 20389Mi each 4 fit")),
        "half": ("h100-memory-shares", "40Gi", ("1 such share fits", "with 40779Mi each 2 fit")),
        "a third, far too large": ("h100-memory-shares", "30Gi", ()),
        "as it should be": ("h100-memory-shares", "10194Mi", ()),
        "of another size": ("memory-shares", "4Gi", ()),
    },
)
def test_a_share_a_little_too_large_for_one_more(bed, memory, words):
    claims = {"gpu": {**GPU, "capacity": {"memory": memory}}}
    findings = [each for each in check([profile(claims)], FACTS[bed]) if each.rule == "share-remainder"]
    assert len(findings) == bool(words)
    assert all(word in findings[0].message for word in words)


def test_several_shares_of_one_device_are_refused_for_the_right_reason():
    claims = {"gpu": {**GPU, "count": 2, "capacity": {"memory": "10Gi"}}}
    (finding,) = [each for each in check([profile(claims)], FACTS["h100-memory-shares"]) if each.rule == "never-fits"]
    assert (
        "a claim gets at most one share of a device, and gpu asks for 2 where no node has more than 1"
        in finding.message
    )


def test_a_share_that_kube_scheduler_would_miscount():
    """Steps so large that even a size that may be asked for goes beyond 64 bits when it is rounded up."""
    limits = {"min": "4000000000000000000", "step": "9000000000000000000"}
    memory = {"value": "20E", "requestPolicy": {"default": limits["min"], "validRange": limits}}
    device = {"name": "gpu-0", "allowMultipleAllocations": True, "capacity": {"memory": memory}}
    bed = Bed("huge", {"gpu.example.com": ({"devices": [device]},)}).facts()
    (finding,) = check([profile({"gpu": {**EXAMPLE, "capacity": {"memory": "4500000000000000000"}}})], bed)
    assert (finding.rule, finding.path) == ("share-too-large", f"{CLAIMS}.gpu.capacity.memory")


def test_choices_that_meet_on_a_device_with_different_parameters():
    def shares(interval, **request):
        parameters = {
            "apiVersion": "gpu.resource.example.com/v1alpha1",
            "kind": "GpuConfig",
            "sharing": {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": interval}},
        }
        request = {**EXAMPLE, "capacity": {"memory": "5Gi", "compute": 1}, **request}
        return {
            "gpu": {"requests": {"g": request}, "config": [{"driver": "gpu.example.com", "parameters": parameters}]}
        }

    same = [profile(shares("Long"), "a"), profile(shares("Long"), "b")]
    assert check(same, shared_gpus()) == []
    different = [profile(shares("Long"), "a"), profile(shares("Short"), "b")]
    (finding,) = check(different, shared_gpus())
    assert finding.rule == "different-config"
    assert finding.path == "profile_list[1].kubespawner_override.device_claims.gpu.requests.g"
    assert "profile_list[0].kubespawner_override.device_claims.gpu.requests.g" in finding.message
    # Without a word about compute the first takes all of it; then nobody else gets on the device.
    alone = [profile(shares("Long", capacity={"memory": "5Gi"}), "a"), profile(shares("Short"), "b")]
    assert "different-config" not in [finding.rule for finding in check(alone, shared_gpus())]
    third = check([*alone, profile(shares("Long"), "c")], shared_gpus())
    assert [finding.path[:15] for finding in third if finding.rule == "different-config"] == ["profile_list[2]"]
    nowhere = [profile(shares("Long"), "a"), profile(shares("Short", device_class="gpu.exampel.com"), "b")]
    assert [finding.rule for finding in check(nowhere, shared_gpus())] == ["device-class"]
    apart = [profile(shares("Long"), "a"), profile(shares("Short", where="!device.allowMultipleAllocations"), "b")]
    assert "different-config" not in [finding.rule for finding in check(apart, shared_gpus())]


def test_access_for_administration_needs_the_namespaces_label():
    claims = {"gpu": {**GPU, "admin_access": True}}
    label = {"resource.kubernetes.io/admin-access": "true"}
    assert found(claims, replace(FACTS["a100-efa"], namespace_labels={})) == [("error", "admin-access")]
    assert found(claims, replace(FACTS["a100-efa"], namespace_labels=label)) == [("info", "admin-access")]
    assert found(claims) == [("info", "admin-access")]


@pytest.mark.parametrize(
    ("field", "request_"),
    [
        ("capacity", {"capacity": {"memory": "1Gi"}}),
        ("tolerations", {"tolerations": [{"operator": "Exists"}]}),
        ("adminAccess", {"admin_access": True}),
    ],
)
def test_a_field_that_the_cluster_drops(field, request_):
    claims = {"gpu": {**GPU, **request_}}
    dropped = ClusterFacts(dropped_fields=frozenset([field]))
    assert ("error", "field-dropped") in found(claims, dropped)
    assert ("error", "field-dropped") not in found(claims, ClusterFacts(dropped_fields=frozenset()))


def test_other_fields_that_the_cluster_drops():
    claims = {"gpu": {"first_available": {"a": GPU}}}
    assert found(claims, ClusterFacts(dropped_fields=frozenset(["firstAvailable"]))) == [("error", "field-dropped")]
    constrained = {"x": {"requests": {"gpu": GPU}, "constraints": [{"distinct_attribute": ROOT}]}}
    (finding,) = check([profile(constrained)], ClusterFacts(dropped_fields=frozenset(["distinctAttribute"])))
    assert finding.path == f"{CLAIMS}.x.constraints[0]"


def test_a_field_that_a_release_drops_by_default_is_a_warning():
    claims = {"gpu": {**GPU, "capacity": {"memory": "1Gi"}}}
    assert found(claims, ClusterFacts(kubernetes_version=(1, 35))) == [("warning", "field-dropped")]
    assert found(claims, ClusterFacts(kubernetes_version=(1, 36))) == []
    assert found(claims, ClusterFacts(kubernetes_version=(1, 33))) == [("error", "api-version")]


def test_cel_that_the_api_server_refuses():
    claims = {"gpu": where('"n" in OWN && OWN.n.includes(0)')}
    for version, gates, level in (
        ((1, 35), {"DRAListTypeAttributes": True}, "error"),
        ((1, 37), {}, "warning"),
        ((1, 37), {"DRAListTypeAttributes": True}, None),
        ((1, 38), {}, None),
    ):
        expected = [] if level is None else [(level, "selector-fails")]
        assert found(claims, ClusterFacts(kubernetes_version=version, gates=gates)) == expected, (version, gates)


def test_without_a_cluster_unguarded_reads_are_remarked():
    assert found({"gpu": where("OWN.index == 0")}) == [("info", "unguarded-attribute")]
    assert found({"gpu": where("has(OWN.index) && OWN.index == 0")}) == []
    assert found({"gpu": {**GPU, "product": "A100*"}}) == []


def test_raw_specs_have_limits_of_their_own():
    alternatives: list[JsonObject] = [
        {"name": f"a{number}", "deviceClassName": "gpu.nvidia.com"} for number in range(9)
    ]
    alternatives[0]["adminAccess"] = True
    claims = {"gpu": {"spec": {"devices": {"requests": [{"name": "gpu", "firstAvailable": alternatives}]}}}}
    findings = check([profile(claims)])
    assert [(each.rule, each.path) for each in findings] == [
        ("alternatives", f"{CLAIMS}.gpu.spec.devices.requests[0].firstAvailable"),
        ("alternatives", f"{CLAIMS}.gpu.spec.devices.requests[0].firstAvailable[0].adminAccess"),
    ]


def test_parameters_for_all_alternatives():
    def claims(*requests):
        config = {"driver": "gpu.nvidia.com", "parameters": {"x": 1}} | (
            {"requests": list(requests)} if requests else {}
        )
        alternatives = {"whole": GPU, "slice": {"device_class": "mig.nvidia.com"}}
        return {"x": {"requests": {"gpu": {"first_available": alternatives}}, "config": [config]}}

    for requests in ((), ("gpu",)):
        findings = check([profile(claims(*requests))])
        assert [(each.rule, each.path) for each in findings] == [
            ("config-for-all-alternatives", f"{CLAIMS}.x.config[0]")
        ]
    assert check([profile(claims("gpu/whole"))]) == []


def test_node_selectors_count():
    facts = FACTS["a100-efa"]
    claims = [profile({"gpu": GPU})]
    assert check(claims, facts, node_selector={"kubernetes.io/hostname": "a100-efa"}) == []
    (finding,) = check(claims, facts, node_selector={"pool": "cpu"})
    assert (finding.rule, "node_selector (pool=cpu) leaves out" in finding.message) == ("never-fits", True)


def test_optional_devices_are_no_errors():
    optional = {"gpu": {**GPU, "product": "H100*", "optional": True}}
    assert found(optional, FACTS["a100-efa"]) == [("warning", "never-fits")]
    missing = {"gpu": {"device_class": "missing.example.com", "optional": True}}
    assert found(missing, FACTS["a100-efa"]) == [("warning", "device-class")]


def test_findings_stand_where_the_value_was_written():
    sizes = {
        name: {"display_name": name, "kubespawner_override": {"device_claims": {"gpu": {"capacity": {key: "1Gi"}}}}}
        for name, key in (("small", "memory"), ("odd", "mem"))
    }
    option = {"size": {"display_name": "Size", "choices": sizes}}
    findings = check([profile({"gpu": GPU}, profile_options=option)], FACTS["a100-efa"])
    choices = "profile_list[0].profile_options.size.choices"
    below = "kubespawner_override.device_claims.gpu.capacity"
    assert [(each.rule, each.path) for each in findings] == [
        ("whole-device", f"{choices}.small.{below}"),
        ("unknown-capacity", f"{choices}.odd.{below}.mem"),
    ]


def test_extended_resources_need_a_class_or_a_plugin():
    facts = FACTS["a100-efa"]
    limits = {"extra_resource_limits": {"nvidia.com/gpu": "1"}}
    assert found({}, facts, **limits) == [("warning", "extended-resource")]
    (node,) = present(facts.nodes)
    classes = present(facts.device_classes)
    plugin = {**node, "status": {**node["status"], "allocatable": {"nvidia.com/gpu": "8"}}}
    assert found({}, replace(facts, nodes=(plugin,)), **limits) == []
    gpu = replace(classes["gpu.nvidia.com"], extended_resource_name="nvidia.com/gpu")
    mapped = replace(facts, device_classes={**classes, gpu.name: gpu})
    assert found({}, mapped, **limits) == []
    assert found({}, mapped, extra_resource_limits={"nvidia.com/gpu": "9"}) == [("error", "never-fits")]
    both = replace(mapped, nodes=(node, {**plugin, "metadata": {**plugin["metadata"], "name": "plugin"}}))
    assert found({}, both, **limits) == []
    assert found({"gpu": GPU}, mapped, **limits) == []
    assert found({"gpu": GPU}, both, **limits) == [("warning", "extended-beside-claims")]


def test_a_missing_setting_is_reported_once_for_all_choices_of_a_profile():
    sizes = {
        size: {"display_name": size, "kubespawner_override": {"device_claims": {"gpu": {"count": size}}}}
        for size in (1, 2, 3)
    }
    profiles = [profile({"gpu": GPU}, profile_options={"n": {"display_name": "n", "choices": sizes}})]
    report = check_choices(list_choices(profiles, {}), FACTS["a100-efa"])
    (toleration,) = [each for each in report.findings if each.rule == "node-toleration"]
    assert toleration.path == "profile_list[0].kubespawner_override.tolerations"


def test_a_refused_expression_is_a_finding_with_its_column():
    (finding,) = check([profile({"gpu": where("OWN.productName ==")})])
    assert (finding.rule, finding.path) == ("profile-language", f"{CLAIMS}.gpu.where")
    assert "(column 51: " in finding.message


def test_every_rule_is_in_these_tests():
    text = Path(__file__).read_text()
    untested = [rule.name for rule in RULES if f'"{rule.name}"' not in text]
    # Of the command, see tests/commands/checking; and of test_defects.py.
    assert set(untested) <= {"profile-function", "free-text", "kubernetes-defect"}


def _physical(name: str, **attributes: str) -> JsonObject:
    values = {key: {"string": value} for key, value in attributes.items()}
    return {"name": name, "attributes": values, "capacity": {"memory": {"value": "40Gi"}}}


def test_a_gpu_that_is_published_beside_its_slices():
    slices = [_physical(f"mig-{n}", type="mig", profile="2g.20gb", uuid=f"MIG-{n}", parentUUID="GPU-1") for n in (0, 1)]
    whole = _physical("gpu-0", type="gpu", uuid="GPU-1", productName="A100")
    other = _physical("gpu-1", type="gpu", uuid="GPU-2", productName="A100")
    facts = Bed("a", {"gpu.nvidia.com": ({"devices": [*slices, whole, other]},)}).facts()
    (finding,) = check([profile({"gpu": GPU})], facts)
    assert (finding.level, finding.rule) == (Level.WARNING, "same-hardware-twice")
    assert "1 of the 2 devices" in finding.message
    assert "gpu.nvidia.com/a/gpu-0 is published whole and as its parts (mig-0)" in finding.message
    assert found({"gpu": {"device_class": "mig.nvidia.com"}}, facts) == []
    sound = Bed("a", {"gpu.nvidia.com": ({"devices": [*slices, other]},)}).facts()
    assert found({"gpu": GPU}, sound) == []


def test_devices_with_a_taint_may_lose_it():
    """A device that is unhealthy for a time refuses no start."""
    facts = FACTS["a100-efa"]
    unhealthy = (Taint("example.com/unhealthy", "", "NoSchedule"),)
    slices = tuple(
        replace(each, devices=tuple(replace(device, taints=unhealthy) for device in each.devices))
        for each in facts.slices or ()
    )
    assert found({"gpu": GPU}, replace(facts, slices=slices)) == [(W_, "never-fits")]
    rule = DeviceTaintRule("power", unhealthy[0], driver="gpu.nvidia.com")
    assert found({"gpu": GPU}, replace(facts, taint_rules=(rule,))) == [(W_, "never-fits")]
    assert found({"gpu": GPU}, replace(facts, taint_rules=(replace(rule, device="gpu-0"),))) == []
    without = replace(rule, driver=None, has_selector=False)
    for version, expected in (((1, 36), [(W_, "never-fits")]), ((1, 37), [])):
        assert found({"gpu": GPU}, replace(facts, kubernetes_version=version, taint_rules=(without,))) == expected
