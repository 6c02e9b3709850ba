"""What a server says about its kernels: understood as Jupyter Server writes it, else refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from dra_spawner.fairness.idle.samples import Kernel, KernelState, ServerActivity
from dra_spawner.fairness.idle.server_answers import InvalidServerAnswer, read_activity
from tests.all_of_them import all_of_them

TIME = "2026-03-02T09:00:00.000000Z"
AT = datetime(2026, 3, 2, 9, tzinfo=UTC)


def report(**more: Any) -> Any:
    kernel = {"execution_state": "idle", "last_activity": TIME}
    return {"kernels": [kernel], "terminals": [], "connections": 1, **more}


@all_of_them("word, state", {
    "busy": KernelState.BUSY, "starting": KernelState.BUSY, "restarting": KernelState.BUSY,
    "autorestarting": KernelState.BUSY, "idle": KernelState.IDLE, "dead": KernelState.DEAD,
    "unknown": KernelState.UNKNOWN, "IDLE": KernelState.UNKNOWN, "": KernelState.UNKNOWN, None: KernelState.UNKNOWN,
}.items())  # fmt: skip
def test_words_of_kernels(word: object, state: KernelState) -> None:
    found = read_activity(report(kernels=[{"execution_state": word, "last_activity": TIME}]))
    assert found == ServerActivity((Kernel(state, AT),), (), 1)


@all_of_them("found", {
    "nothing": None,
    "a list": [],
    "no kernels": {"terminals": [], "connections": 0},
    "kernels that are a text": report(kernels="[]"),
    "a kernel that is a number": report(kernels=[1]),
    "no time": report(kernels=[{"execution_state": "idle"}]),
    "a time that is a number": report(kernels=[{"execution_state": "idle", "last_activity": 5}]),
    "a time that is a word": report(terminals=[{"last_activity": "now"}]),
    "a long time": report(terminals=[{"last_activity": "2026" + "0" * 1000}]),
    "no terminals": {"kernels": [], "connections": 0},
    "connections that are true": report(connections=True),
    "negative connections": report(connections=-1),
    "too many kernels": report(kernels=[{"execution_state": "idle", "last_activity": TIME}] * 1001),
})  # fmt: skip
def test_what_is_not_understood_is_refused(found: object) -> None:
    with pytest.raises(InvalidServerAnswer):
        read_activity(found)


def test_times_without_a_zone_are_utc() -> None:
    found = read_activity(report(terminals=[{"last_activity": "2026-03-02T09:00:00"}, {"last_activity": TIME}]))
    assert found.terminals == (AT, AT)
