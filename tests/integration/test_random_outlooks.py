"""The outlooks that users see of random states never contradict the real scheduler.

DRA_SPAWNER_OUTLOOK_STATES says how many states there are (500), and DRA_SPAWNER_OUTLOOK_SEED which.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable

import pytest

from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.planner.answers.placement import Placement
from tests.cluster.under_test import ClusterUnderTest
from tests.examples import example_count
from tests.integration.devices import classes
from tests.integration.random_states import PRIORITY_CLASS, States, random_state
from tests.polling import eventually

STATES = int(os.environ.get("DRA_SPAWNER_OUTLOOK_STATES", example_count(500)))
SEED = int(os.environ.get("DRA_SPAWNER_OUTLOOK_SEED", "16"))
AT_ONCE = 125
#: States in which a server starts without anything else.
AT_ONCE_STARTS = frozenset({AvailabilityState.FREE})
#: States in which a server waits.
DENIED = frozenset({AvailabilityState.NEVER, AvailabilityState.WHEN_STOPPED, AvailabilityState.NEEDS_NODE})


def victims(placement: Placement) -> Iterable[str]:
    """Names of the placeholders that the service deletes for the server."""
    if placement.preemption is not None:
        return [each.key.name for each in placement.preemption.placeholders]
    return [placement.placeholder.key.name] if placement.placeholder is not None else []


async def contradictions(states: States) -> list[str]:
    """Differences between the scheduler's actions and the outlooks that users see, as sentences."""
    await states.prepare()
    await states.judge()
    await states.probe()
    everybody = {each.name for each in states.states}

    async def all_judged() -> bool:
        return (await states.verdicts()).keys() == everybody

    await eventually(all_judged, "the scheduler judges all probes", pause_seconds=0.4)
    outlook_states = {name: outlook.state for name, outlook in states.outlooks.items()}
    starts = {name for name, state in outlook_states.items() if state in AT_ONCE_STARTS}
    found = []

    async def missing(expected: set[str]) -> set[str]:
        verdicts = await states.verdicts()
        return {name for name in expected if not verdicts[name]}

    async def until_started(expected: set[str]) -> set[str]:
        """Servers that do not start although they should."""
        left: list[set[str]] = [set()]

        async def have_started() -> bool:
            left[0] = await missing(expected)
            return not left[0]

        try:
            await eventually(have_started, "servers start", pause_seconds=0.4)
        except AssertionError:
            return left[0]
        return set()

    found += [f"{name} is called free, but waits" for name in await until_started(starts)]
    verdicts = await states.verdicts()
    found += [
        f"{name} is called {outlook_states[name]}, but runs on {verdicts[name]}"
        for name in everybody
        if outlook_states[name] in DENIED and verdicts[name]
    ]
    # The service deletes placeholders for a server, and another user stops a server.
    ends: dict[str, Iterable[str]] = {}
    for name, state in outlook_states.items():
        if state in (AvailabilityState.READY, AvailabilityState.AFTER_PREEMPTION):
            ends[name] = victims(states.placements[name])
        elif state is AvailabilityState.WHEN_STOPPED and (holders := states.outlooks[name].holders):
            ends[name] = [max(pod.name for pod in holders)]
    await states.delete(pod for pods in ends.values() for pod in pods)
    found += [
        f"{name} is called {outlook_states[name]}, but waits after {ends[name]}"
        for name in await until_started({*ends})
    ]
    # Without all other pods, a server that never runs does not run either.
    never = {name for name, state in outlook_states.items() if state is AvailabilityState.NEVER}
    others = [pod["metadata"]["name"] for pod in await states.pods()]
    await states.delete(each for each in others if each.partition("-")[0] in never and not each.endswith("-probe"))
    free = {name: node for name, node in (await states.verdicts()).items() if name in never and node}
    found += [f"{name} is said to start never, but runs on {node}" for name, node in free.items()]
    return found


@pytest.mark.timeout(60 + STATES)
async def test_the_scheduler_never_contradicts(real_cluster: ClusterUnderTest) -> None:
    cluster = real_cluster
    priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": PRIORITY_CLASS}}
    await cluster.publish(*classes(), {**priority, "value": -10})
    counts: Counter[AvailabilityState] = Counter()
    for begin in range(0, STATES, AT_ONCE):
        numbers = range(begin, min(begin + AT_ONCE, STATES))
        states = States(cluster, [random_state(SEED, number, cluster.namespace) for number in numbers])
        found = await contradictions(states)
        details = {
            name: (await states.said_of(name), states.placements[name], states.outlooks[name])
            for name in (each.split()[0] for each in found)
        }
        assert not found, (found, details)
        counts.update(outlook.state for outlook in states.outlooks.values())
        await states.clear()
    for state in (
        AvailabilityState.FREE,
        AvailabilityState.NEVER,
        AvailabilityState.AFTER_PREEMPTION,
        AvailabilityState.WHEN_STOPPED,
    ):
        assert counts[state] >= STATES // 50, "states that are all alike would prove nothing"
