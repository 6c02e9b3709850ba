"""The devices that are shown to a server."""

from __future__ import annotations

from dra_spawner.dra.model.devices import ResourceSlice
from dra_spawner.spawner.my_devices.own_devices import own_devices
from dra_spawner.spawner.my_devices.published import PublishedDevices
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


def of_dranet(**more):
    """A claim of a network card that DRANET has moved into the pod: the node's slice has another one only."""
    spec = {
        "driver": "dra.net",
        "nodeName": "node-a",
        "pool": {"name": "node-a", "generation": 2, "resourceSliceCount": 1},
    }
    other = ResourceSlice.from_json({"metadata": {"name": "s"}, "spec": {**spec, "devices": [{"name": "nic-1"}]}})
    (found,) = own_devices(pod(), [claim(driver="dra.net", device="nic-0", **more)], PublishedDevices([other])).devices
    return found


def test_a_network_card_in_use_is_not_published_and_well():
    found = of_dranet()
    assert (found.health.state.value, found.protection.by) == ("unknown", "whole")
    assert "may have failed" not in found.health.sentence
    assert "yours alone" in found.protection.sentence
    assert of_dranet(shareID="s1").protection.by == "unknown"


def test_a_claim_whose_placeholder_had_to_go_first_is_not_warm():
    """Its devices were prepared after that, for the server."""
    obj, own = pod(), claim()
    own["metadata"]["labels"] = {"component": "user-placeholder"}
    assert own_devices(obj, [own], published(gpu())).warm
    waits = {"labelSelector": {"matchLabels": {"hub.jupyter.org/placeholder": "placeholder-1"}}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [waits]}
    obj["spec"]["affinity"] = {"podAntiAffinity": required}
    found = own_devices(obj, [own], published(gpu()))
    assert (found.warm, found.place) == (False, "gpu-0 on node-a")


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
