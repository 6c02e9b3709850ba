"""Costs of a device claim for the hub: 100 servers with KubeSpawner, with a minimal claim, and with DRASpawner.

The least is KubeSpawner that sends the same two requests more (it creates a template and makes the pod its owner) and
does nothing else: no profile, no check, no sentence, no clean-up. No code of ours can save its additional costs.

Run ``python -m tests.bench.spawn``. The cluster is the real control plane with its default client limits and pretended nodes;
the hub's side (users, database, spawner) runs in this process, on a thread of its own, so that its processor time can
be told from everything else's. One stub answers for all servers.

Prints, for each spawner, the median over the rounds of: processor time of the hub's thread a spawn, requests to the API
server a spawn (reflectors' lists and watches not counted), and the time until all servers ran, which is the
scheduler's and the claim controller's more than the hub's; and the ratios of each pair of rounds.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

from aiohttp import web
from kubernetes_asyncio.client.rest import RESTClientObject
from kubespawner import KubeSpawner

from dra_spawner.devcluster.kubelet.kubelet import Kubelet
from dra_spawner.kube.client.api import KubernetesApi, resource_path
from dra_spawner.spawner import DRASpawner
from tests.bench.figures import options_parser, ratios
from tests.cluster.background import BackgroundLoop
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fake_runtime import FakeRuntime, OneAddress
from tests.cluster.harness_binary import BinaryUnavailable, control_plane_binary
from tests.integration.devices import classes, node_with, shareable
from tests.spawner.hub_side import HubSide, end_hub_side, kubernetes_of

STUB = "127.0.0.1"
SERVERS_A_NODE = 8


TEMPLATES = resource_path("resource.k8s.io/v1", "resourceclaimtemplates", "default")
CLAIMED: dict[str, Any] = {
    "exactly": {"deviceClassName": "gpu-share.example.com", "capacity": {"requests": {"memory": "5Gi"}}}
}


class LeastSpawner(KubeSpawner):
    """KubeSpawner whose pod has a claim from a template of its own, and nothing else."""

    connection: ClassVar[KubernetesApi]

    async def get_pod_manifest(self) -> Any:
        pod = await super().get_pod_manifest()
        pod.spec.resource_claims = [{"name": "gpu", "resourceClaimTemplateName": self.pod_name}]
        pod.spec.containers[0].resources.claims = [{"name": "gpu"}]
        return pod

    async def _make_create_pod_request(self, pod: Any, request_timeout: float) -> bool:
        template = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": self.pod_name},
            "spec": {"spec": {"devices": {"requests": [{"name": "gpu", **CLAIMED}]}}},
        }
        await self.connection.create(TEMPLATES, template)
        return bool(await super()._make_create_pod_request(pod, request_timeout))

    async def _start(self) -> str:
        url = await super()._start()
        uid = self.pod_reflector.pods[f"{self.namespace}/{self.pod_name}"]["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": self.pod_name, "uid": uid}
        await self.connection.patch(f"{TEMPLATES}/{self.pod_name}", {"metadata": {"ownerReferences": [owner]}})
        return str(url)


@dataclass(frozen=True)
class Figures:
    """Of one round."""

    hub_milliseconds: float
    requests: float
    seconds: float


@contextmanager
def counted_requests() -> Iterator[Counter[str]]:
    """Count this thread's requests by verb and kind; the kubelet's come from another thread."""
    counts: Counter[str] = Counter()
    hub = threading.get_ident()
    original = RESTClientObject.request

    async def request(self: Any, method: str, url: str, query_params: Any = None, **more: Any) -> Any:
        query = dict(query_params or ())
        path = url.split("/api", 1)[1].split("?")[0]
        kind = next((part for part in reversed(path.split("/")) if part.isalpha() and part.endswith("s")), path)
        if method == "GET" and ("watch" in query or "resourceVersion" in query):
            kind = "reflector"
        if threading.get_ident() == hub:
            counts[f"{method} {kind}"] += 1
        return await original(self, method, url, query_params=query_params, **more)

    with patch.object(RESTClientObject, "request", request):
        yield counts


async def one_round(side: HubSide, names: list[str]) -> tuple[Figures, Counter[str]]:
    users = [side.user(name) for name in names]
    # Long-lived objects, also of the pretended nodes in this process, are not scanned again for garbage of a start.
    gc.collect()
    gc.freeze()
    with counted_requests() as counts:
        before, begin = time.thread_time(), time.monotonic()
        await asyncio.gather(*(user.spawn("", {}) for user in users))
        hub, seconds = time.thread_time() - before, time.monotonic() - begin
    for user in users:
        # Only the start is measured; every spawner polls its server from here on.
        user.spawner.stop_polling()
    await asyncio.gather(*(user.stop("") for user in users))
    own = {kind: count for kind, count in counts.items() if "reflector" not in kind}
    return Figures(hub / len(names) * 1000, sum(own.values()) / len(names), seconds), Counter(own)


async def answer(_: web.Request) -> web.Response:
    return web.json_response({"version": "stub"}, headers={"X-JupyterHub-Version": "5"})


async def start_stub() -> int:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, STUB, 0)
    await site.start()
    return int(runner.addresses[0][1])


async def start_cluster(kubeconfig: Path, nodes: int) -> tuple[Kubelet, KubernetesApi]:
    api = await KubernetesApi.from_kubeconfig(kubeconfig, max_connections=200)
    for device_class in classes():
        await api.create(resource_path("resource.k8s.io/v1", "deviceclasses"), device_class)
    kubelet = Kubelet(api, runtime=FakeRuntime(), addresses=OneAddress(STUB), events=False)
    await kubelet.start()
    for number in range(nodes):
        node, devices = node_with(f"node-{number:03}", shareable("gpu-0"))
        await kubelet.add_node(node)
        await api.create(resource_path("resource.k8s.io/v1", "resourceslices"), devices)
    await kubelet.wait_schedulable()
    return kubelet, api


async def measure(kubeconfig: Path, port: int, servers: int, rounds: int) -> dict[str, list[Figures]]:
    sides = {}
    LeastSpawner.connection = await KubernetesApi.from_kubeconfig(kubeconfig, max_connections=200)
    for spawner in (KubeSpawner, LeastSpawner, DRASpawner):
        side = sides[spawner.__name__] = HubSide(kubeconfig, "default", spawner)
        side.spawner_config.port = port
        side.spawner_config.start_timeout = 300
        side.spawner_config.http_timeout = 60
    sides["DRASpawner"].spawner_config.device_claims = {
        "gpu": {"device_class": "gpu-share.example.com", "capacity": {"memory": "5Gi"}}
    }
    figures: dict[str, list[Figures]] = {name: [] for name in sides}
    for number in range(rounds + 1):  # the first warms up
        for name, side in sides.items():
            result, requests = await one_round(side, [f"{name.lower()}-{number}-{user}" for user in range(servers)])
            label = "warm-up" if number == 0 else f"round {number}"
            print(
                f"{label:8} {name:12} {result.hub_milliseconds:6.1f} ms  {result.seconds:5.1f} s  {dict(requests)}",
                flush=True,
            )
            if number:
                figures[name].append(result)
    await LeastSpawner.connection.close()
    await end_hub_side()
    return figures


def report(figures: dict[str, list[Figures]], servers: int) -> None:
    print(f"\n{servers} servers at once, medians of {len(figures['KubeSpawner'])} rounds")
    print(f"{'':12} {'hub, ms a spawn':>16} {'requests a spawn':>17} {'all running, s':>15}")
    for name, rounds in figures.items():
        medians = [
            statistics.median(getattr(r, field) for r in rounds)
            for field in ("hub_milliseconds", "requests", "seconds")
        ]
        print(f"{name:12} {medians[0]:16.1f} {medians[1]:17.2f} {medians[2]:15.1f}")
    plain, dra = figures["KubeSpawner"], figures["DRASpawner"]
    print("hub time, DRASpawner / KubeSpawner:", ratio_of(dra, plain), "(aim: at most 1.2)")
    print("hub time, LeastSpawner / KubeSpawner:", ratio_of(figures["LeastSpawner"], plain))
    print("hub time, DRASpawner / LeastSpawner:", ratio_of(dra, figures["LeastSpawner"]))
    more = statistics.median(ours.requests - theirs.requests for ours, theirs in zip(dra, plain, strict=True))
    print(f"requests a spawn more: {more:.2f}; aim: at most 2")


def ratio_of(ours: list[Figures], theirs: list[Figures]) -> str:
    """Of the hub's time, of rounds that followed one another."""
    return ratios(*([each.hub_milliseconds for each in side] for side in (ours, theirs)))


def main() -> int:
    parser = options_parser(__doc__)
    parser.add_argument("--servers", type=int, default=100, help="servers started at once (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="measured rounds of each spawner (%(default)s)")
    options = parser.parse_args()
    try:
        binary = control_plane_binary(lambda text: print(text, file=sys.stderr))
    except BinaryUnavailable as error:
        print(f"There is no real control plane: {error}", file=sys.stderr)
        return 1
    with (
        tempfile.TemporaryDirectory() as directory,
        ControlPlane(binary, Path(directory) / "control-plane", client_qps=1000) as plane,
        BackgroundLoop("cluster") as background,
    ):
        kubelet, api = background.run(
            start_cluster(plane.admin_kubeconfig, nodes=options.servers // SERVERS_A_NODE + 1)
        )
        port = background.run(start_stub())
        with kubernetes_of(plane.admin_kubeconfig):
            figures = asyncio.run(measure(plane.admin_kubeconfig, port, options.servers, options.rounds))
        background.run(kubelet.stop())
        background.run(api.close())
    report(figures, options.servers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
