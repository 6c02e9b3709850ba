"""Extended resources of a profile, as the claim that kube-scheduler makes where classes stand for them."""

import pytest

from dra_spawner.dra.model.objects import DeviceClass
from dra_spawner.profiles.choices import list_choices
from dra_spawner.profiles.compiler.extended_resources import extended_resource_names, of_pod, of_settings
from tests.presence import present

GPU = "example.com/gpu"
IMPLICIT = "deviceclass.resource.kubernetes.io/nic"
CLASSES = (DeviceClass("gpu", extended_resource_name=GPU), DeviceClass("nic"))


def requests(spec):
    return [
        (each["name"], each["exactly"]["deviceClassName"], each["exactly"]["count"])
        for each in spec["devices"]["requests"]
    ]


def test_which_names_may_be_backed_by_devices():
    names = [GPU, IMPLICIT, "cpu", "memory", "hugepages-2Mi", "x.kubernetes.io/y", "requests.example.com/gpu", "pods"]
    assert extended_resource_names(names) == [GPU, IMPLICIT]


def test_the_claim_is_that_of_the_scheduler():
    found = of_settings({"extra_resource_limits": {GPU: "2"}})
    assert found.names == (GPU,)
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}
    assert found.claim_spec(CLASSES) == {
        "devices": {"requests": [{"name": "container-0-request-0", "exactly": exactly}]}
    }
    assert found.claim_spec(()) is None
    assert found.unknown(()) == (GPU,)
    assert found.unknown(CLASSES) == ()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param(
            {"extra_resource_limits": {GPU: 1}, "cpu_guarantee": 0.5, "mem_limit": "1G"},
            [("container-0-request-1", "gpu", 1)],
            id="numbered among cpu and memory",
        ),
        pytest.param(
            {"extra_resource_guarantees": {GPU: 1, IMPLICIT: 2}},
            [("container-0-request-0", "nic", 2), ("container-0-request-1", "gpu", 1)],
            id="two resources",
        ),
        pytest.param(
            {
                "extra_resource_limits": {GPU: 1},
                "init_containers": [{"name": "init", "resources": {"limits": {GPU: 3}}}],
                "extra_containers": [{"name": "more", "resources": {"limits": {GPU: 1}}}],
            },
            [
                ("container-0-request-0", "gpu", 1),
                ("container-1-request-0", "gpu", 1),
                ("container-2-request-0", "gpu", 1),
            ],
            id="init containers use devices of later ones",
        ),
        pytest.param(
            {"extra_resource_limits": {GPU: 1}, "init_containers": {"b": {"restartPolicy": "Always"}, "a": {}}},
            [("container-2-request-0", "gpu", 1)],
            id="containers by name",
        ),
    ],
)
def test_settings_of_kubespawner(settings, expected):
    spec = of_settings(settings).claim_spec(CLASSES)
    assert requests(spec) == expected


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"cpu_limit": 2},
        {"extra_resource_limits": None},
        {"extra_resource_limits": {GPU: "0"}},
        {"extra_resource_limits": {GPU: "many", 5: 1, "other": [1]}},
        {"extra_resource_limits": [GPU], "init_containers": 5, "extra_containers": [None, {"resources": 1}]},
    ],
    ids=str,
)
def test_nothing_to_count(settings):
    assert of_settings(settings).names == ()
    assert of_settings(settings).claim_spec(CLASSES) is None


def test_requests_of_a_pod_from_the_api_server():
    resources = {"limits": {GPU: "1"}, "requests": {GPU: "1", "cpu": "100m"}}
    pod = {"spec": {"initContainers": [{"name": "i"}], "containers": [{"name": "n", "resources": resources}]}}
    assert requests(of_pod(pod).claim_spec(CLASSES)) == [("container-1-request-1", "gpu", 1)]
    assert of_pod({}).names == ()


def test_the_plan_of_a_choice_has_extended_resources_beside_its_claims():
    profile = {
        "display_name": "Both",
        "kubespawner_override": {
            "device_claims": {"nic": {"device_class": "nic"}},
            "extra_resource_limits": {GPU: "1"},
        },
    }
    (listed,) = list_choices([profile], {})
    plan = present(listed.choice).plan
    assert [claim.name for claim in plan.claims] == ["nic"]
    assert requests(plan.extended_resources.claim_spec(CLASSES)) == [("container-0-request-0", "gpu", 1)]
