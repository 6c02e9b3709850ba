"""Answers of ``dra-spawner fit``: formats of the input, several claims, objects the API server would refuse."""

from __future__ import annotations

import json
from typing import Any

import yaml

from tests.all_of_them import all_of_them
from tests.commands.cluster_files.inputs import (
    API,
    DRIVER,
    answers,
    api_list,
    claim,
    device_class,
    fit,
    gpu,
    gpu_slice,
    node,
)

SHARED = [node("n1"), gpu_slice("n1", gpu(shared=True)), device_class()]
RESULT = {"request": "gpu", "driver": DRIVER, "pool": "n1", "device": "gpu-0"}
FITS = {"n1": {"allocations": [{"claim": "team/wanted", "results": [RESULT]}]}}
OBJECTS = [node("n1"), gpu_slice("n1", gpu()), device_class(), claim()]


@all_of_them(
    "text",
    {
        "list": json.dumps(api_list(*OBJECTS)),
        "list as kubectl prints it": json.dumps(api_list(*OBJECTS), indent=4),
        "byte order mark": "\ufeff" + json.dumps(api_list(*OBJECTS)),
        "objects one after the other": "\n".join(json.dumps(item, indent=1) for item in OBJECTS),
        "objects without space between them": "".join(map(json.dumps, OBJECTS)),
        "array": json.dumps(OBJECTS),
        "documents of YAML": "---\n" + yaml.safe_dump_all(OBJECTS),
        "list in YAML": yaml.safe_dump(api_list(*OBJECTS)),
        "empty documents of YAML": "# empty\n---\n---\n" + yaml.safe_dump_all(OBJECTS),
        "items that do not say their kind": json.dumps(
            {"kind": "NodeList", "apiVersion": "v1", "items": [{"metadata": {"name": "n1"}}]}
        )
        + json.dumps(api_list(*OBJECTS[1:])),
        "objects that do not matter": json.dumps(
            api_list(*OBJECTS, {"kind": "Pod", "metadata": {}}, {"kind": "Node", "apiVersion": "other/v1"})
        ),
    },
)
def test_every_format_is_read(text):
    assert answers(stdin=text) == [{"name": "standard input", "nodes": FITS}]


def test_files_are_taken_together(tmp_path):
    (tmp_path / "cluster.json").write_text(json.dumps(api_list(*OBJECTS[:3])))
    (tmp_path / "wanted.yaml").write_text(yaml.safe_dump(OBJECTS[3]))
    [answer] = answers(tmp_path / "cluster.json", tmp_path / "wanted.yaml")
    assert answer["nodes"] == FITS


def test_a_line_is_a_question_of_its_own():
    lines = [
        {"name": "one", "objects": [claim()]},
        {"name": "its own node", "objects": [node("n2"), gpu_slice("n2", gpu()), claim()]},
        {"name": "in use", "objects": [claim("other", device=("n1", "gpu-0")), claim()]},
        {"name": "one again", "objects": [claim()]},
    ]
    text = json.dumps(api_list(*OBJECTS[:3])) + "\n" + "".join(json.dumps(line) + "\n" for line in lines)
    one, own, used, again = answers(stdin=text)
    assert one == {"name": "one", "nodes": FITS}
    assert set(own["nodes"]) == {"n1", "n2"}
    assert own["nodes"]["n2"]["allocations"][0]["results"][0]["pool"] == "n2"
    assert used["nodes"] == {"n1": {"unavailable": "in use"}}
    assert again["nodes"] == FITS


def test_claims_are_taken_together_in_order():
    [answer] = answers(stdin=json.dumps([*SHARED, claim("b", "25Gi"), claim("a", "15Gi")]))
    allocations = answer["nodes"]["n1"]["allocations"]
    assert [item["claim"] for item in allocations] == ["team/b", "team/a"]
    assert allocations[0]["results"] == [{**RESULT, "shareID": True, "consumedCapacity": {"memory": "25Gi"}}]
    [answer] = answers(stdin=json.dumps([*SHARED, claim("b", "25Gi"), claim("a", "16Gi")]))
    assert answer["nodes"]["n1"] == {"unavailable": "memory: 15Gi left, 16Gi needed"}


NO_STEP = gpu(shared=True, default="1Gi", validRange={"min": "1Gi", "step": "0"})
UNKNOWN_SET = {**gpu(), "consumesCounters": [{"counterSet": "none", "counters": {"slots": {"value": "1"}}}]}
NO_COUNTERS = {**gpu(), "consumesCounters": [{"counterSet": "none"}]}
WRONG_CLASS = {"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {"selectors": 1}}
POLICY = "spec.devices[0].capacity[memory].requestPolicy"


@all_of_them(
    "device, of_class, verdict",
    {
        "step 0": (NO_STEP, device_class(), f"error: ResourceSlice n1-gpu: {POLICY}.validRange.step: must not be 0"),
        "no quantity": (gpu(memory="12Q"), device_class(), "is not a quantity"),
        "class's CEL": (gpu(), device_class("device.driver =="), "does not compile"),
        "unknown counter": (
            UNKNOWN_SET,
            device_class(),
            "unavailable: pool gpu.example.com/n1 is invalid: device gpu-0 consumes the unknown counter set none",
        ),
        "no counters": (NO_COUNTERS, device_class(), "spec.devices[0].consumesCounters[0].counters: is required"),
        "class": (gpu(), WRONG_CLASS, "error: DeviceClass gpu: spec.selectors: must be a list"),
    },
)
def test_an_object_the_api_server_refuses_gives_one_verdict_where_the_object_matters(device, of_class, verdict):
    healthy = [node("n1"), node("n2"), gpu_slice("n2", gpu())]
    touches_all = of_class != device_class()
    [answer] = answers(stdin=json.dumps([*healthy, gpu_slice("n1", device), of_class, claim()]), refused=touches_all)
    [(kind, text)] = answer["nodes"]["n1"].items()
    assert verdict in f"{kind}: {text}"
    assert ("error" in answer["nodes"]["n2"]) == touches_all
    assert ("allocations" in answer["nodes"]["n2"]) == (not touches_all)


def test_a_negative_share_is_judged_as_the_scheduler_does():
    text = json.dumps([*SHARED, claim("a", "-5Gi"), claim("b", "45Gi")])
    [answer] = answers(stdin=text, release=(1, 36))
    assert "allocations" in answer["nodes"]["n1"]


def test_a_broken_claim_is_an_error_on_every_node():
    broken = claim("held", "10Gi", device=("n1", "gpu-0"))
    broken["status"]["allocation"]["devices"]["results"][0]["consumedCapacity"]["memory"] = "much"
    code, output, _ = fit(stdin=json.dumps([*SHARED, broken, claim()], indent=1), as_json=True)
    assert code == 2
    message = json.loads(output)["nodes"]["n1"]["error"]
    assert message.startswith("ResourceClaim held: status.allocation.devices.results[0].consumedCapacity[memory]: ")
    assert "(standard input, line " in message


def test_a_broken_slice_of_no_node_concerns_all():
    broken = gpu_slice("n1", gpu(memory="12Q"))
    del broken["spec"]["nodeName"]
    [answer] = answers(stdin=json.dumps([node("n1"), node("n2"), broken, device_class(), claim()]), refused=True)
    assert all("12Q" in verdict["error"] for verdict in answer["nodes"].values())


def test_quirks_can_be_left_out():
    counters = {"counterSet": "set", "counters": {"slots": {"value": "1"}}}
    objects = [node("n1"), device_class("true"), claim("a", count=1), claim("b", count=1)]
    for driver in ("a.example.com", "b.example.com"):
        devices = gpu_slice("n1", {"name": "d", "consumesCounters": [counters]})
        shared = gpu_slice("n1")
        for name, item in (("devices", devices), ("counters", shared)):
            item["metadata"]["name"] = f"{driver}-{name}"
            item["spec"] |= {"driver": driver, "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 2}}
            objects.append(item)
        del shared["spec"]["devices"]
        shared["spec"]["sharedCounters"] = [{"name": "set", "counters": {"slots": {"value": "1"}}}]
    text = json.dumps(objects)
    assert "unavailable" in answers(stdin=text, release=(1, 36))[0]["nodes"]["n1"]
    assert "allocations" in answers(stdin=text, release=(1, 36), without_quirks=True)[0]["nodes"]["n1"]
    # The newest release has no such defect, and decides where no node tells its version.
    assert "allocations" in answers(stdin=text)[0]["nodes"]["n1"]
    objects[0]["status"] = {"nodeInfo": {"kubeletVersion": "v1.36.2-eks-1"}}
    assert "unavailable" in answers(stdin=json.dumps(objects))[0]["nodes"]["n1"]
    assert "allocations" in answers(stdin=json.dumps(objects), release=(1, 37))[0]["nodes"]["n1"]


def rule(selector: Any = None, version: str = "v1", **taint: str) -> Any:
    spec = {"deviceSelector": selector or {}, "taint": {"key": "example.com/upkeep", "effect": "NoSchedule", **taint}}
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "upkeep"},
        "spec": spec,
    }


TAINTED = {"unavailable": "taint example.com/upkeep:NoSchedule not tolerated"}
TOLERATED = claim(tolerations=[{"key": "example.com/upkeep", "operator": "Exists", "tolerationSeconds": 60}])


@all_of_them(
    "objects, verdict",
    {
        "all devices": ([rule(), claim()], TAINTED),
        "in kubectl's order": ([claim(), rule()], TAINTED),
        "of 1.36": ([rule(version="v1beta2"), claim()], TAINTED),
        "alpha": ([rule(version="v1alpha3"), claim()], TAINTED),
        "a list without kinds": (
            [
                {
                    "kind": "DeviceTaintRuleList",
                    "apiVersion": API,
                    "items": [{key: value for key, value in rule().items() if key != "kind"}],
                },
                claim(),
            ],
            TAINTED,
        ),
        "evicting": (
            [rule(effect="NoExecute"), claim()],
            {"unavailable": "taint example.com/upkeep:NoExecute not tolerated"},
        ),
        "for information": ([rule(effect="None"), claim()], FITS["n1"]),
        "of another device": ([rule({"device": "gpu-1"}), claim()], FITS["n1"]),
        "of this device": ([rule({"driver": DRIVER, "pool": "n1", "device": "gpu-0"}), claim()], TAINTED),
        "tolerated for some time": ([rule(effect="NoExecute"), TOLERATED], FITS["n1"]),
    },
)
def test_taint_rules_count(objects, verdict):
    [answer] = answers(stdin=json.dumps([*OBJECTS[:3], *objects]))
    found = answer["nodes"]["n1"]
    assert found == verdict or ("allocations" in found and "allocations" in verdict)


def test_a_rule_of_one_question_is_not_one_of_the_next():
    lines = [{"name": "one", "objects": [rule(), claim()]}, {"name": "two", "objects": [claim()]}]
    one, two = answers(stdin=json.dumps(OBJECTS[:3]) + "".join(map(json.dumps, lines)))
    assert (one["nodes"]["n1"], two["nodes"]) == (TAINTED, FITS)


def test_a_broken_rule_leaves_the_answer_open():
    broken = rule()
    del broken["spec"]["taint"]
    [answer] = answers(stdin=json.dumps([*OBJECTS, broken]), refused=True)
    assert "DeviceTaintRule upkeep: spec.taint: is required" in str(answer["nodes"]["n1"])


def template(name: str = "gpu", **exactly: Any) -> Any:
    obj = claim(name, **exactly)
    return {**obj, "kind": "ResourceClaimTemplate", "spec": {"spec": obj["spec"]}}


def pod(name: str = "p", *, node_name: str = "", statuses: Any = (), **entry: str) -> Any:
    spec = {"resourceClaims": [{"name": "gpu", **entry}], "containers": [{"name": "c"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {**spec, **({"nodeName": node_name} if node_name else {})},
        "status": {"resourceClaimStatuses": list(statuses)},
    }


CLUSTER = [node("n1"), gpu_slice("n1", gpu(), gpu("gpu-1")), device_class()]
OF_TEMPLATE = {"resourceClaimTemplateName": "gpu"}
MADE = {"name": "gpu", "resourceClaimName": "wanted"}


@all_of_them(
    "objects, wanted",
    {
        "a template": ([template()], ["team/gpu"]),
        "a pod of it": ([template(), pod(**OF_TEMPLATE)], ["team/p-gpu"]),
        "two pods of it": (
            [pod("a", **OF_TEMPLATE), template(), pod("b", **OF_TEMPLATE)],
            ["team/a-gpu", "team/b-gpu"],
        ),
        "a pod of a claim": ([claim(), pod(resourceClaimName="wanted")], ["team/wanted"]),
        "a pod whose claim is made": ([template(), claim(), pod(statuses=[MADE], **OF_TEMPLATE)], ["team/wanted"]),
        "a pod that runs": (
            [
                template(),
                claim(device=("n1", "gpu-0")),
                pod(node_name="n1", statuses=[MADE], **OF_TEMPLATE),
                claim("x"),
            ],
            ["team/x"],
        ),
    },
)
def test_templates_and_pods_ask_for_claims(objects, wanted):
    [answer] = answers(stdin=json.dumps([*CLUSTER, *objects]))
    assert [each["claim"] for each in answer["nodes"]["n1"]["allocations"]] == wanted


@all_of_them(
    "objects, sentence",
    {
        "only a cluster": ([], "nothing asks for a device"),
        "all has devices": ([claim(device=("n1", "gpu-0"))], "nothing asks for a device"),
        "a claim without requests": (
            [{**claim(), "spec": {"devices": {}}}],
            "nothing asks for a device",
        ),
        "a pod without claims": ([{**pod(), "spec": {"containers": []}}], "nothing asks for a device"),
        "a Deployment": ([{"apiVersion": "apps/v1", "kind": "Deployment"}], "nothing asks for a device"),
        "a pod of a missing template": ([pod(**OF_TEMPLATE)], "names ResourceClaimTemplate gpu, which was not given"),
        "a pod of a missing claim": ([pod(resourceClaimName="x")], "names ResourceClaim x, which was not given"),
    },
)
def test_nothing_asked_is_never_answered_with_yes(objects, sentence):
    code, output, messages = fit(stdin=json.dumps([*CLUSTER, *objects]), as_json=True)
    assert code == 2
    assert sentence in messages
    assert sentence in json.loads(output)["nodes"]["n1"]["error"]


def test_objects_of_v1beta1_are_converted():
    old = "resource.k8s.io/v1beta1"
    published = gpu_slice("n1", {"name": "gpu-0", "basic": {"capacity": {"memory": {"value": "40Gi"}}}})
    wanted = claim()
    wanted["spec"]["devices"]["requests"] = [{"name": "gpu", "deviceClassName": "gpu", "count": 1}]
    objects = [{**each, "apiVersion": old} for each in (published, device_class(), wanted)]
    [answer] = answers(stdin=json.dumps([node("n1"), *objects]))
    assert answer["nodes"] == FITS
    of_template = {**wanted, "kind": "ResourceClaimTemplate", "spec": {"spec": wanted["spec"]}, "apiVersion": old}
    [answer] = answers(stdin=json.dumps([node("n1"), *objects[:2], of_template]))
    assert answer["nodes"] == FITS


def test_a_device_whose_list_no_selector_can_read_is_named():
    lists = {"name": "cpu-0", "attributes": {"example.com/roots": {"strings": ["a", "b"]}}}
    objects = [node("n1"), gpu_slice("n1", lists, gpu()), device_class(), claim()]
    code, output, _ = fit(stdin=json.dumps(objects), release=(1, 36))
    assert code == 1
    assert f"attribute example.com/roots of device {DRIVER}/n1/cpu-0 is a list" in output
    assert "--list-attributes decides as with it" in output
    assert fit(stdin=json.dumps(objects), list_attributes=True, release=(1, 36))[0] == 0


def test_a_share_is_packed_as_by_the_service():
    """The first GPU stays whole; a claim that the service does not pack is told with the reason."""
    devices = [{**gpu(f"gpu-{number}", shared=True), "attributes": {"uuid": {"string": f"GPU-{number}"}}} for number in range(2)]  # fmt: skip
    cluster = [node("n1"), gpu_slice("n1", *devices), device_class(), claim("held", "10Gi", ("n1", "gpu-1"))]
    given = {}
    for packs in (False, True):
        [answer] = answers(stdin=json.dumps(api_list(*cluster, claim("wanted", "10Gi"))), packs_devices=packs)
        [allocation] = answer["nodes"]["n1"]["allocations"]
        [result] = allocation["results"]
        given[packs] = result["request"], result["device"]
    assert given == {False: ("gpu", "gpu-0"), True: ("gpu/preferred", "gpu-1")}
    every = claim("all", allocationMode="All")
    [answer] = answers(stdin=json.dumps(api_list(*cluster, every)), packs_devices=True)
    assert answer["warnings"] == ["no device is packed: a request wants all devices"]


def test_a_list_of_alternatives_waits_for_all_of_them():
    """So its order needs no expected waits: whichever is free first serves it."""
    alternatives = [{"name": name, "deviceClassName": "gpu", "selectors": [{"cel": {"expression": f'device.attributes["{DRIVER}"].size == "{name}"'}}]} for name in ("large", "small")]  # fmt: skip
    wanted = claim()
    wanted["spec"]["devices"]["requests"] = [{"name": "gpu", "firstAvailable": alternatives}]
    devices = [{**gpu(name), "attributes": {"size": {"string": name}}} for name in ("large", "small")]
    cluster = [node("n1"), gpu_slice("n1", *devices), device_class(), wanted]
    given = {}
    for held in (("large", "small"), ("large",), ("small",), ()):
        [answer] = answers(stdin=json.dumps(api_list(*cluster, *(claim(name, device=("n1", name)) for name in held))))
        found = answer["nodes"]["n1"].get("allocations", ())
        given[held] = [result["request"] for allocation in found for result in allocation["results"]]
    assert given == {("large", "small"): [], ("large",): ["gpu/small"], ("small",): ["gpu/large"], (): ["gpu/large"]}
