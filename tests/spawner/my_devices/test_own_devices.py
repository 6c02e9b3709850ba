"""The devices that are shown to a server."""

from __future__ import annotations

from dra_spawner.spawner.my_devices.own_devices import own_devices
from tests.all_of_them import all_of_them
from tests.spawner.my_devices.objects import claim, gpu, pod, published

SHARED = gpu(shared=True)
TIME_SLICED = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharing": {"strategy": "MPS"}}


def only(claims, *devices):
    (found,) = own_devices(pod(), claims, published(*devices)).devices
    return found


def test_a_share_names_its_device():
    found = only([claim({"memory": "10Gi", "cores": "3"}, asked={"memory": "9Gi"})], SHARED)
    assert [each.text for each in found.share] == ["10 GiB of 40 GiB"]
    assert (found.product, found.device_class, found.claim) == ("NVIDIA A100", "gpus", "gpu")


@all_of_them(
    "claims, devices, by, says",
    {
        "whole": (claim(), [gpu()], "whole", "yours alone"),
        "cut in hardware": (claim(), [gpu(kind="mig")], "hardware", "cut out of the GPU"),
        "a share": (claim({"memory": "10Gi"}, asked={"memory": "10Gi"}), [SHARED], "none", "not enforced"),
        "all that is shared": (claim({"memory": "40Gi"}), [SHARED], "whole", "yours alone"),
        "unknown driver": (claim({"memory": "10Gi"}, driver="x.example.com"), [SHARED], "unknown", "not known"),
        "a claim of several servers": (claim(uids=("u1", "u2")), [gpu()], "none", "together"),
        "administration": (claim(adminAccess=True), [gpu()], "none", "administration"),
        "not published": (claim(), [], "unknown", "not known"),
    },
)  # fmt: skip
def test_protection(claims, devices, by, says):
    found = only([claims], *devices).protection
    assert found.by == by
    assert says in found.sentence


def test_parameters_of_the_class_count():
    obj = claim()
    config = {
        "source": "FromClass",
        "requests": ["gpu"],
        "opaque": {"driver": "gpu.nvidia.com", "parameters": TIME_SLICED},
    }
    obj["status"]["allocation"]["devices"]["config"] = [config]
    assert "nothing limits" in only([obj], gpu()).protection.sentence


def test_a_claim_that_is_not_reserved_for_the_pod_is_not_shown():
    found = own_devices(pod(), [claim(uids=("u2",))], published(gpu()))
    assert (found.devices, found.place) == ((), "")


def test_nothing_is_shown_about_other_users():
    obj = claim(uids=("u1", "jupyter-eve"))
    obj["metadata"]["labels"] = {"hub.jupyter.org/username": "eve", "component": "user-placeholder"}
    found = own_devices(pod(), [obj], published(gpu()))
    assert "eve" not in str(found.as_json())
    assert found.warm
    assert found.devices[0].protection.by == "whole", "the other one is the placeholder"


def test_each_share_of_a_device_has_its_own_addresses():
    obj = claim({"bandwidth": "1G"}, shareID="s1")
    obj["status"]["allocation"]["devices"]["results"].append(
        {**obj["status"]["allocation"]["devices"]["results"][0], "shareID": "s2"}
    )
    name = {"driver": "gpu.nvidia.com", "pool": "node-a", "device": "gpu-0"}
    obj["status"]["devices"] = [
        {**name, "shareID": "s2", "networkData": {"interfaceName": "net1", "ips": ["10.0.0.1/8"]}}
    ]
    first, second = own_devices(pod(), [obj], published(SHARED)).devices
    assert first.network is None
    assert second.network is not None
    assert (second.network.name, second.network.addresses) == ("net1", ("10.0.0.1/8",))


def test_devices_of_a_device_plugin_are_counted():
    """Not that there are none."""
    obj = pod()
    (container,) = obj["spec"]["containers"]
    container["resources"]["limits"] = {
        "cpu": "1",
        "gpu.intel.com/i915": "2",
        "gpu.intel.com/millicores": "500",
        "example.com/gpu": "1",
    }
    mapping = {"containerName": "notebook", "requestName": "r", "resourceName": "example.com/gpu"}
    obj["status"]["extendedResourceClaimStatus"] = {"resourceClaimName": "c", "requestMappings": [mapping]}
    devices_shown = own_devices(obj, [claim()], published(gpu())).devices
    assert [(each.id.device, each.protection.by) for each in devices_shown] == [
        ("gpu-0", "whole"),
        ("gpu.intel.com", "unknown"),
    ]
    assert [(each.text, each.name) for each in devices_shown[1].share] == [("2", "i915"), ("500", "millicores")]
