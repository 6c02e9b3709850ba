"""A real hub whose spawn form a browser opens; its service answers about availability as a test says."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.under_test import ClusterUnderTest
from tests.integration.hub_process import HubProcess
from tests.spawner.service_stand_in import TOKEN, ServiceStandIn, profile_items

HOSTILE = "<script>window.hostile = 1</script>"

PROFILES = [
    {
        "display_name": "GPU slice",
        "slug": "gpu-slice",
        "default": True,
        "description": "A share of a GPU's memory; the rest serves others.",
        "profile_options": {
            "memory": {
                "display_name": "GPU memory",
                "choices": {size: {"display_name": f"{size} GiB"} for size in ("10", "20", "40")},
            },
            "image": {
                "display_name": "Image",
                "choices": {name: {"display_name": name.title()} for name in ("scipy", "pytorch")},
                "unlisted_choice": {
                    "enabled": True,
                    "display_name": "Name of the image",
                    "validation_regex": "^[a-z]+$",
                },
            },
        },
    },
    {
        "display_name": "Whole GPU",
        "slug": "gpu-whole",
        "description": "One GPU that is not shared",
        "kubespawner_override": {"device_claims": {"gpu": {"device_class": "missing.example.com"}}},
        "profile_options": {
            "count": {"display_name": "GPUs", "choices": {n: {"display_name": n} for n in ("1", "2", "4", "8")}}
        },
    },
    {
        "display_name": "&lt;script&gt;window.hostile = 1&lt;/script&gt;",
        "slug": "hostile",
        "profile_options": {
            "size": {
                "display_name": "Size",
                "choices": {"s": {"display_name": "S"}, HOSTILE: {"display_name": "&lt;L&gt;"}},
            }
        },
    },
    {"display_name": "No device", "slug": "cpu", "description": "A notebook without any device"},
]

AVAILABILITY: dict[str, Any] = {
    "gpu-slice": {"state": "ready", "sentence": "A share is ready for you.", "wait": None},
    "gpu-slice/memory=20": {"state": "free", "sentence": "A share is free.", "wait": None},
    "gpu-slice/memory=40": {
        "state": "when-stopped",
        "sentence": "All shares are in use; your server starts when another one stops.",
        "wait": {"low_seconds": 600, "high_seconds": 2400},
    },
    "gpu-slice/image=pytorch": {"state": "free", "sentence": "A share is free.", "wait": None},
    "gpu-whole": {
        "state": "needs-node",
        "sentence": "No GPU is free; another machine is added for your server.",
        "wait": {"low_seconds": 240, "high_seconds": 360},
    },
    "gpu-whole/count=2": {"state": "after-preemption", "sentence": "Spare servers give way.", "wait": None},
    "gpu-whole/count=4": {
        "state": "closed",
        "sentence": "What could run it is taken out of use by an administrator until 2036-11-29 20:00 UTC.",
        "wait": None,
    },
    "gpu-whole/count=8": {"state": "never", "sentence": "No machine has 8 GPUs.", "wait": None},
    "hostile": {"state": "never", "sentence": f"{HOSTILE}.", "wait": None},
    "cpu": {"state": "free", "sentence": "There is space for your server.", "wait": None},
}


@dataclass
class FormHub:
    """The hub, its service, and the answers of the service.

    Attributes
    ----------
    availability
        By choice; a test may change it.
    combinations
        The same of combinations, which are answered by name only.
    """

    hub: HubProcess
    service: ServiceStandIn
    availability: dict[str, Any]
    combinations: dict[str, Any]


@contextlib.asynccontextmanager
async def form_hub(cluster: ClusterUnderTest, directory: Path, more_config: str = "") -> AsyncIterator[FormHub]:
    async with ServiceStandIn().listening() as service:
        config = f"""
c.JupyterHub.services.append({{"name": "dra-spawner", "url": {service.url!r}, "api_token": {TOKEN!r}}})
c.DRASpawner.profile_list = {PROFILES!r}
c.JupyterHub.tornado_settings = {{"slow_spawn_timeout": 600}}
{more_config}
"""
        hub = HubProcess(directory, cluster.hub_kubeconfig, cluster.namespace, config)
        hub.let_forms_wait()
        made = FormHub(hub, service, dict(AVAILABILITY), {})

        async def answer(query: dict[str, Any]) -> dict[str, Any]:
            of = made.combinations if query else made.availability
            return profile_items(**{name: each for name, each in of.items() if not query or name == query["name"]})

        service.profiles = answer
        async with hub:
            yield made
