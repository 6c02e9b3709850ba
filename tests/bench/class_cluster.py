"""The cluster of a class: a real control plane, fake nodes with GPUs that are shared, and an autoscaler stand-in.

The clock jumps ahead while nothing happens, as in `tests.virtual_time`. Placeholders are those of the service, with the
service's own application in this process, or those of zero-to-jupyterhub's chart.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from dra_spawner import names
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.placeholders.planner.targets.hypothetical_pods import simulated_placeholder
from dra_spawner.placeholders.planner.targets.placeholder_objects import PlaceholderSettings
from dra_spawner.simulator.model.claims import TrackedClaim
from dra_spawner.simulator.model.pods import Pod
from tests.bench.spawn import STUB
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import PRIORITY_CLASS, classes, priority_class
from tests.placeholders.planner.autoscaler import Autoscaler, NodeGroup
from tests.polling import eventually
from tests.service.virtual_replica import FOLLOWING, VirtualReplica, VirtualTime
from tests.virtual_time.api import VirtualTimeApi
from tests.virtual_time.cluster_world import ClusterWorld
from tests.virtual_time.quiet import waiting
from tests.virtual_time.systems import USER_SCHEDULER

Json = dict[str, Any]

#: Midnight of the clock that jumps, ten hours before the class. While users click it must be ahead of the hub's clock, which
#: is real, and by half an hour at most: the hub uses no reservation that has ended, or that ends later. So it has this
#: time until the clock has come to the class.
DAY = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(minutes=27) - timedelta(hours=10)
PROFILE = "gpu-slice"
"""Of the shipped configuration: 10Gi of a GPU's memory."""
PREFIX = f"/services/{names.PROJECT}/"
#: Requests of a user's server and of a placeholder without a claim.
RESOURCES = {"cpu": "250m", "memory": "1Gi"}
#: 4 GPUs of 80Gi: 32 servers. Five minutes to the node, 20 s more to its devices, three minutes to the image.
NODES = NodeGroup(cpu="16", gpus=4, memory="80Gi", least=0, most=20, starts_per_minute=4)
KIND: Json = {
    "name": "g2",
    "slots": 32,
    "lead_minutes": 5.5,
    "image_minutes": 3,
    "max_nodes": 20,
    "starts_per_minute": 4,
}
"""The same nodes, as an administrator describes them."""
_STILL_SECONDS = 0.2


@dataclass(frozen=True)
class PlaceholderSetup:
    """A source of placeholders, and their number.

    Attributes
    ----------
    settings
        Of the service; None without one.
    recipe
        Placeholders of the chart's recipe.
    """

    title: str
    settings: Json | None = None
    recipe: int = 0


class ClassWorld(ClusterWorld):
    """Nodes as the autoscaler stand-in makes them, and one of the setups."""

    replica: VirtualReplica | None = None

    def replacement_of(self, placeholder: Pod) -> tuple[Pod, tuple[TrackedClaim, ...]]:
        name = f"{placeholder.name}-again"
        if self.replica is not None:
            shape = self.replica.running.controller.published.shapes[PROFILE]
            return simulated_placeholder(shape, self.namespace, name)
        manifest = {"metadata": {"name": name, "namespace": self.namespace, "uid": name}, **recipe_pod()}
        manifest["spec"]["priority"] = placeholder.priority
        return Pod.from_json(manifest), ()

    def one_of_each_kind(self) -> list[Pod]:
        """One pending server and one pending placeholder: all are alike."""
        return [*{pod.labels.get(names.COMPONENT): pod for pod in waiting(self.watch)}.values()]

    def is_busy(self) -> bool:
        """Whether the service is about to decide again."""
        if self.replica is None or not self.replica.leads:
            return False
        latest = self.replica.running.controller.latest
        return latest is None or (bool(latest.actions) and not latest.on_hold)

    async def create_recipe(self, count: int) -> None:
        """The chart's recipe: pods of a low priority, without claims, that the scheduler preempts for users."""
        template = {"metadata": {"labels": {names.COMPONENT: names.PLACEHOLDER}}, **recipe_pod()}
        spec = {
            "replicas": count,
            "podManagementPolicy": "Parallel",
            "serviceName": names.PLACEHOLDER,
            "selector": {"matchLabels": {names.COMPONENT: names.PLACEHOLDER}},
            "template": template,
        }
        stateful_set = {"kind": "StatefulSet", "metadata": {"name": names.PLACEHOLDER}, "spec": spec}
        await self.create("apps/v1", "statefulsets", stateful_set)


def recipe_pod() -> Json:
    """The spec of a placeholder of the chart's recipe: the size of a server."""
    container = {"name": "pause", "image": PlaceholderSettings().image, "resources": {"requests": RESOURCES}}
    return {
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "schedulerName": USER_SCHEDULER,
            "priorityClassName": PRIORITY_CLASS,
            "containers": [container],
        }
    }


class ClassCluster:
    """See the module.

    Attributes
    ----------
    autoscaler
        Orders and removes nodes; all begin at zero.
    max_nodes
        Nodes that were paid for at once.
    """

    def __init__(self, world: ClassWorld, time: VirtualTime) -> None:
        self.world = world
        self.time = time
        self.autoscaler = Autoscaler(world, NODES)
        self.max_nodes = 0

    @property
    def now(self) -> datetime:
        return self.time.now()

    async def look(self) -> None:
        """Let everybody decide as of now."""
        replica = self.world.replica
        if replica is not None:
            replica.running.controller.advance_forecasts()
        self.autoscaler.run()
        await self.world.flush()
        self.max_nodes = max(self.max_nodes, self.autoscaler.nodes)

    async def jump(self, moment: datetime) -> None:
        """Go to a moment, once all that happens by itself has happened."""
        world, replica = self.world, self.world.replica
        await world.quiet.wait()
        self.time.clock.jump_to(moment)
        world.quiet.stir()
        if replica is not None:
            replica.note_jump()
            await replica.running.until(lambda: replica.is_fresh, "its state is fresh")
        await self.look()

    async def jump_on(self, until: datetime, step: timedelta) -> None:
        """Go to a moment in steps."""
        while self.now < until:
            await self.jump(min(self.now + step, until))
        await self.world.quiet.wait()


@contextlib.asynccontextmanager
async def class_cluster(cluster: ClusterUnderTest, setup: PlaceholderSetup, port: int) -> AsyncIterator[ClassCluster]:
    """A cluster without nodes, with one of the setups at work; servers answer at a port of this machine."""
    time = VirtualTime(DAY - timedelta(hours=14))
    await cluster.publish(*classes(), priority_class())
    async with contextlib.AsyncExitStack() as stack:
        api = await stack.enter_async_context(await VirtualTimeApi.connect(cluster.admin_kubeconfig, time.stamps))
        watch = await stack.enter_async_context(ClusterWatch(api))
        await watch.wait_synced()
        world = ClassWorld(api, watch, time.clock, cluster.namespace, {}, STUB)
        world.quiet.waiting = world.one_of_each_kind
        world.quiet.is_busy = world.is_busy
        world.quiet.still = _STILL_SECONDS
        # Whatever fails of it ends the run, too.
        group = await stack.enter_async_context(asyncio.TaskGroup())
        nodes = group.create_task(world.run_nodes())
        stack.callback(nodes.cancel)
        if setup.settings is not None:
            proxy = await stack.enter_async_context(cluster.fault_proxy())
            settings = {"history": {"keep_days": 0}, "prefix": PREFIX, **setup.settings}
            replica = VirtualReplica(cluster, time, proxy, settings, FOLLOWING)
            await replica.start()
            stack.push_async_callback(replica.stop)
            await eventually(lambda: replica.leads and replica.running.controller.leads, "the service leads")
            world.replica = replica
        if setup.recipe:
            await world.create_recipe(setup.recipe)
        yield ClassCluster(world, time)
