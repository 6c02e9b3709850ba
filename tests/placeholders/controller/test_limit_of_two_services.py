"""Two services share a limit of all hubs on one API server: simultaneous creations come down to the limit."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import AsyncIterator

from dra_spawner import names
from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.kube.client.api import KubernetesApi
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.placeholders.controller.round.executor import ActionExecutor
from dra_spawner.placeholders.controller.round.reconciler import Reconciler
from dra_spawner.placeholders.planner.cluster.cluster_index import Namespaces
from dra_spawner.placeholders.planner.targets.limits import Limit
from dra_spawner.placeholders.planner.targets.placeholder_objects import PlaceholderSettings
from dra_spawner.placeholders.planner.targets.policy import Policy, ReplicaRange
from dra_spawner.placeholders.planner.targets.shapes import Shape
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import PRIORITY_CLASS, whole
from tests.placeholders.controller.objects import WHOLE, node, prepare, shape
from tests.polling import eventually
from tests.running import running

GPU = shape(WHOLE)
MOST = 3
POLICY = Policy(
    shapes={GPU.id: GPU},
    replicas={GPU.id: ReplicaRange(3, 6)},
    limits=(Limit("gpus", devices=MOST, all_hubs=True),),
)


@contextlib.asynccontextmanager
async def service(cluster: ClusterUnderTest, installation: str, made: list[str]) -> AsyncIterator[Reconciler]:
    """The placeholders' part of one service, with a watch of its own; ``made`` gets names of its placeholders."""
    settings = PlaceholderSettings(cluster.namespace, PRIORITY_CLASS, labels={names.INSTALLATION: installation})
    own = frozenset((cluster.namespace,))

    def new_name(of: Shape) -> str:
        made.append(f"placeholder-{installation}-{len(made)}")
        return made[-1]

    async with (
        await KubernetesApi.from_kubeconfig(cluster.admin_kubeconfig) as api,
        ClusterWatch(api) as watch,
    ):
        await watch.wait_synced()
        executor = ActionExecutor(api, settings, may_act=lambda: None, new_name=new_name)
        within = Namespaces(own, own, own, installation)
        yield Reconciler(watch, lambda: POLICY, executor, DecisionLog(), within)


async def test_two_services_keep_to_one_limit(real_cluster: ClusterUnderTest) -> None:
    await prepare(real_cluster)
    await real_cluster.publish(*node("node-a", *(whole(f"gpu-{number}") for number in range(6))))
    made: list[str] = []
    async with service(real_cluster, "one", made) as one, service(real_cluster, "two", made) as two:
        hubs = {"one": one, "two": two}

        def placeholders() -> Counter[str]:
            return Counter({name: len(each.view().placeholders) for name, each in hubs.items()})

        def are_agreed() -> bool:
            latest = [each.latest for each in hubs.values()]
            pods = [
                sum(key.namespace == real_cluster.namespace for key in each.watch.snapshot.pods)
                for each in hubs.values()
            ]
            is_quiet = all(each is not None and not each.actions for each in latest)
            return is_quiet and placeholders().total() == MOST and pods == [MOST, MOST]

        def a_service_gets_less() -> bool:
            """Whether a service has fewer devices than it wants, because the other service has some."""
            denials = [each.latest.limited.get(GPU.id) for each in hubs.values() if each.latest is not None]
            because = f"other hubs have devices ({real_cluster.namespace}/"
            return any(each is not None and because in each.because for each in denials)

        def shown() -> object:
            limited = [each.latest and each.latest.limited for each in hubs.values()]
            return placeholders(), limited, [each.decisions.newest(12) for each in hubs.values()]

        async with running(one.run()), running(two.run()):
            await eventually(are_agreed, "both have as many as the limit allows", shows=shown)
            assert len(made) <= 2 * MOST, ("none is created again", made, shown())
            # A round on the last state may still come.
            await eventually(a_service_gets_less, "a service gets less than it wants", shows=shown)
