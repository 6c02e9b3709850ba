"""Failures of the API server, in virtual time: nothing changes that would not have changed without them."""

from __future__ import annotations

import itertools
from random import Random
from typing import Final

from dra_spawner.kube.cluster_watch import RESOURCES
from dra_spawner.simulator.model.cluster_objects import Kind, Knowledge
from tests.examples import example_count
from tests.kube.failing_api import Failure
from tests.placeholders.controller.resting_cluster import PLACEHOLDERS, SERVERS, RestingCluster
from tests.virtual_loop import pass_time, run_in_virtual_time

#: All that the controller follows; the ConfigMaps hold the hub's shapes and what people set.
PLURALS: Final = (*(each.plural for each in RESOURCES.values()), "configmaps")
_PAUSES: Final = (0.2, 2.0, 10.0, 70.0)
#: Until a list that is not answered is given up, and an informer has tried again for sure.
_LONGEST_SECONDS: Final = 110.0
_A_ROUND_SECONDS: Final = 16.0
_IS_LONG: Final = example_count(100) == 100
_SEQUENCES: Final = 1000 if _IS_LONG else 40


async def _until_at_rest(cluster: RestingCluster) -> None:
    """Let the controller write what it writes once, such as a label of the newest node."""
    await pass_time(3600)
    cluster.api.writes.clear()
    await pass_time(120)
    assert cluster.api.writes == [], "it is at rest"
    assert (len(cluster.warm()), len(cluster.controller.view().users)) == (PLACEHOLDERS, SERVERS)
    assert cluster.on_hold == ""


async def _until_recovered(cluster: RestingCluster) -> None:
    for each in cluster.api.failures.values():
        each.clear()
    passed = 0.0
    while passed < _LONGEST_SECONDS and not _is_recovered(cluster):
        await pass_time(5)
        passed += 5
    await pass_time(_A_ROUND_SECONDS)
    assert _is_recovered(cluster)


def _is_recovered(cluster: RestingCluster) -> bool:
    return set(cluster.watch.knowledge().values()) == {Knowledge.KNOWN} and cluster.on_hold == ""


async def _fail_at_random(cluster: RestingCluster, random: Random) -> None:
    """Some failures of some kinds, and the time between them."""
    for _ in range(random.randint(2, 6)):
        for plural in random.sample(PLURALS, random.choice((1, 1, 2, 7))):
            cluster.api.failures[plural].extend(random.choices(list(Failure), k=random.randint(1, 4)))
            cluster.api.cut(plural)
        await pass_time(random.choice(_PAUSES))


def test_after_any_failures_nothing_has_changed() -> None:
    async def all_sequences() -> None:
        cluster = RestingCluster()
        async with cluster.leading():
            await _until_at_rest(cluster)
            before = cluster.seen()
            for seed in range(_SEQUENCES):
                await _fail_at_random(cluster, Random(seed))
                await _until_recovered(cluster)
                assert cluster.api.writes == [], f"seed {seed}"
                assert cluster.seen() == before, f"seed {seed}"
            assert cluster.api.met > 5 * _SEQUENCES
            # What is gone is still seen as gone.
            cluster.remove(Kind.POD, f"placeholder-{SERVERS}")
            await pass_time(_LONGEST_SECONDS)
            assert any(each.startswith("create") and each.endswith("resourceclaims") for each in cluster.api.writes)

    run_in_virtual_time(all_sequences())


def test_each_failure_of_each_kind_leaves_all_as_it_is() -> None:
    """Each failure by itself, of the watch and of the list after it, and for so long that the view is too old."""

    async def each_failure() -> None:
        cluster = RestingCluster()
        async with cluster.leading():
            await _until_at_rest(cluster)
            before = cluster.seen()
            for number, (plural, failure) in enumerate(itertools.product(PLURALS, Failure)):
                sequences = [[failure], [Failure.EXPIRED, failure]]
                if _IS_LONG or number % len(PLURALS) == 0:  # each failure of one kind
                    sequences.append([Failure.EXPIRED, *[failure] * 8])
                for answers in sequences:
                    cluster.api.failures[plural].extend(answers)
                    cluster.api.cut(plural)
                    await pass_time(9 if len(answers) < 3 else 200)
                    assert cluster.seen() == before, (plural, answers)
                    assert cluster.api.writes == [], (plural, answers)
                    await _until_recovered(cluster)

    run_in_virtual_time(each_failure())


def test_a_leader_that_begins_in_an_upgrade_of_the_control_plane_decides_nothing() -> None:
    """The replica that answers is older, and serves no devices: its discovery says so, but placeholders have claims."""

    async def begin() -> None:
        cluster = RestingCluster()
        cluster.api.absent_groups = frozenset(("resource.k8s.io",))
        async with cluster.leading():
            await pass_time(100)
            assert not cluster.watch.has_devices
            reason = "nothing is decided: the cluster serves no devices, although 10 placeholders have claims"
            assert cluster.on_hold == reason
            assert cluster.api.writes == []
            cluster.api.absent_groups = frozenset()
            await pass_time(400)
            assert cluster.watch.has_devices
            assert len(cluster.warm()) == PLACEHOLDERS
            assert not [each for each in cluster.api.writes if "resourceclaims" in each or "pods" in each]

    run_in_virtual_time(begin())


def test_a_leader_that_begins_with_failures_waits() -> None:
    """A 404 of a device kind that discovery names, and of a core kind, is no absence even where nothing was seen."""

    async def begin() -> None:
        for plural in PLURALS:
            cluster = RestingCluster()
            cluster.api.failures[plural].extend([Failure.NOT_FOUND] * 1000)
            async with cluster.leading():
                await pass_time(600)
                assert cluster.controller.latest is None, plural
                assert plural == "configmaps" or not cluster.watch.synced
                await _until_recovered(cluster)
                assert len(cluster.warm()) == PLACEHOLDERS, plural

    run_in_virtual_time(begin())
