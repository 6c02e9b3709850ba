"""DeviceTaintRules taint the same devices as in kube-scheduler's own trackers of slices, in random states."""

from __future__ import annotations

import pytest

from tests.cluster.harness_binary import BinaryUnavailable
from tests.oracle.taint_states import states, taints_of
from tests.oracle.trackers import RELEASES, tracked


@pytest.mark.parametrize("release", RELEASES)
def test_random_states_have_the_taints_of_the_scheduler(release: str) -> None:
    asked = list(states(1_000, seed=2))
    try:
        answers = tracked(release, asked)
    except BinaryUnavailable as reason:
        pytest.skip(str(reason))
    different = [
        state for state, answer in zip(asked, answers, strict=True) if taints_of(state, RELEASES[release]) != answer
    ]
    assert different == []
    assert sum(any(any(devices.values()) for devices in answer.values()) for answer in answers) > 300
