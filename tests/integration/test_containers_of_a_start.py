"""Which containers of a server get its devices: init containers and sidecars get none unless they are named."""

from __future__ import annotations

import json
import sys

import pytest

from tests.integration.devices import classes, node_with, shareable, whole
from tests.integration.hub_process import HubProcess
from tests.polling import eventually

#: A file that is there is whole.
REPORT = (
    "import json, os, pathlib, sys; new = pathlib.Path(sys.argv[1] + '.new');"
    " new.write_text(json.dumps(dict(os.environ))); new.rename(sys.argv[1])"
)
WAIT = REPORT + "; import signal; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); signal.pause()"
CONFIG = """
def container(name, code, **more):
    return dict(name=name, image="this-machine/x:1", command=[PYTHON, "-c", code, DIRECTORY + "/" + name], **more)

c.DRASpawner.init_containers = [container("prepare", REPORT), container("proxy", WAIT, restartPolicy="Always")]
c.DRASpawner.extra_containers = [container("helper", WAIT)]
GPU, SHARE = {"device_class": "gpu.example.com"}, {"device_class": "gpu-share.example.com", "capacity": {"memory": "5Gi"}}
c.DRASpawner.profile_list = [
    {"display_name": "Plain", "slug": "plain", "kubespawner_override": {"device_claims": {"gpu": SHARE}}},
    {
        "display_name": "Spread", "slug": "spread",
        "kubespawner_override": {"device_claims": {"both": {
            "requests": {"gpu": GPU, "share": SHARE},
            "containers": {"notebook": ["gpu"], "prepare": ["gpu"], "proxy": ["share"], "helper": "all"},
        }}},
    },
]
"""


async def devices(cluster, hub):
    """Container -> the devices in its environment."""
    seen = {"notebook": await hub.server_environment("ada")}
    for name in ("prepare", "proxy", "helper"):
        # The other containers may start later than the notebook answers.
        await eventually((cluster.directory / name).exists, f"the report of {name}")
        seen[name] = json.loads((cluster.directory / name).read_text())
        (cluster.directory / name).unlink()
    return {
        name: sorted(
            device
            for key, value in environment.items()
            if key.startswith("DRA_") and key.endswith("_DEVICE")
            for device in value.split(",")
        )
        for name, environment in seen.items()
    }


@pytest.mark.promise("Only the notebook, and containers that a profile names, get devices.")
async def test_only_the_notebook_and_the_containers_that_are_named_get_devices(embedded_cluster):
    cluster = embedded_cluster
    await cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0"), whole("gpu-1")))
    values = {"PYTHON": sys.executable, "DIRECTORY": str(cluster.directory), "REPORT": REPORT, "WAIT": WAIT}
    more = "".join(f"{name} = {value!r}\n" for name, value in values.items()) + CONFIG
    async with HubProcess(cluster.directory / "hub", cluster.hub_kubeconfig, cluster.namespace, more) as hub:
        for profile, expected in {
            "plain": {"notebook": ["node-a/gpu-0"], "prepare": [], "proxy": [], "helper": []},
            "spread": {
                "notebook": ["node-a/gpu-1"],
                "prepare": ["node-a/gpu-1"],
                "proxy": ["node-a/gpu-0"],
                "helper": ["node-a/gpu-0", "node-a/gpu-1"],
            },
        }.items():
            await hub.spawn("ada", {"profile": profile})
            await hub.until_ready("ada")
            assert await devices(cluster, hub) == expected, profile
            await hub.stop_server("ada")
