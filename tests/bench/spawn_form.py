"""How long the hub takes to render a spawn form, without availability and with it, and to answer the form's script.

Run it with ``python -m tests.bench.spawn_form``: 50 profiles with 20 choices each, half of them generated from 5,000
devices. Times are of the processor; the service's answer is there already.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dra_spawner.devcluster.demo.example_nodes import device_classes
from dra_spawner.dra.objects import DeviceClass, ResourceSlice
from dra_spawner.spawner.devices.reader import KnownDevices
from tests.spawner.hub_side import HubSide, end_hub_side, kubernetes_of
from tests.spawner.service_stand_in import ServiceStandIn, profile_items, service_of_the_hub

CLASS = "gpu-share.example.com"


def profile_list(profiles: int) -> list[dict[str, Any]]:
    """Profiles with an option of 8 generated sizes, or of 19 plain ones, and an option of two images."""
    plain = {f"{5 * size}Gi": {"display_name": f"{5 * size} GiB"} for size in range(1, 20)}
    return [
        {
            "display_name": f"Profile {number}",
            "slug": f"profile-{number}",
            "description": "A share of a GPU",
            "kubespawner_override": {"device_claims": {"gpu": {"device_class": CLASS, "capacity": {"memory": "10Gi"}}}},
            "profile_options": {
                "memory": {"display_name": "Memory", "choices": "from_policy" if number % 2 else plain},
                "image": {"display_name": "Image", "choices": {name: {"display_name": name} for name in ("a", "b")}},
            },
        }
        for number in range(profiles)
    ]


def slices(devices: int) -> list[dict[str, Any]]:
    """Eight devices on each node."""
    return [
        {
            "metadata": {"name": f"node-{node}"},
            "spec": {
                "driver": "gpu.example.com",
                "nodeName": f"node-{node}",
                "pool": {"name": f"node-{node}", "generation": 1, "resourceSliceCount": 1},
                "devices": [
                    {
                        "name": f"gpu-{index}",
                        "attributes": {"type": {"string": "gpu-share"}},
                        "allowMultipleAllocations": True,
                        "capacity": {
                            "memory": {
                                "value": "40Gi",
                                "requestPolicy": {"default": "5Gi", "validRange": {"min": "5Gi", "step": "5Gi"}},
                            }
                        },
                    }
                    for index in range(8)
                ],
            },
        }
        for node in range(devices // 8)
    ]


async def measured(work: Callable[[], Any], repeat: int) -> str:
    """Median, and the 99th percentile, in milliseconds of the processor."""
    times = []
    for _ in range(repeat):
        begun = time.process_time()
        await work()
        times.append(1000 * (time.process_time() - begun))
    times.sort()
    return f"median {statistics.median(times):6.1f} ms, p99 {times[int(0.99 * (len(times) - 1))]:6.1f} ms"


async def run(profiles: int, devices: int, repeat: int) -> None:
    kubeconfig = Path(tempfile.mkdtemp()) / "kubeconfig"
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "none",
                "clusters": [{"name": "none", "cluster": {"server": "http://127.0.0.1:1"}}],
                "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}],
                "users": [{"name": "none", "user": {"token": "none"}}],
            }
        )
    )
    with kubernetes_of(kubeconfig):
        hub = HubSide(kubeconfig, "jupyterhub")
        hub.spawner_config.profile_list = profile_list(profiles)
        spawner = hub.user("ada").spawner

        async def known() -> None:
            """Nothing: the devices are put there."""

        spawner.devices.devices.put(
            KnownDevices(
                {each["metadata"]["name"]: DeviceClass.from_json(each) for each in device_classes()},
                tuple(map(ResourceSlice.from_json, slices(devices))),
            )
        )
        spawner.devices.learn = known
        await spawner.get_options_form()
        form = await spawner.get_options_form()
        print(f"form of {len(form) // 1000} kB, {form.count('<option')} choices")
        print(f"without availability: {await measured(spawner.get_options_form, repeat)}")
        if not hasattr(spawner, "choices_of_form"):
            return
        names = list((await spawner.choices_of_form()).names())
        async with ServiceStandIn().listening() as service:
            answer = profile_items(
                **{name: {"state": "free", "sentence": "A share is free.", "wait": None} for name in names}
            )

            async def profiles_answer(_: dict[str, Any]) -> dict[str, Any]:
                return answer

            service.profiles = profiles_answer
            with service_of_the_hub(service.url):
                await spawner.get_options_form()
                print(f"with availability:    {await measured(spawner.get_options_form, repeat)}")
                print(f"of {len(names)} names, {len(service.questions)} questions")
        await end_hub_side()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profiles", type=int, default=50)
    parser.add_argument("--devices", type=int, default=5000)
    parser.add_argument("--repeat", type=int, default=50)
    given = parser.parse_args()
    asyncio.run(run(given.profiles, given.devices, given.repeat))
