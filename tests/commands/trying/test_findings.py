"""What a tried server shows, and whether its choice works."""

from __future__ import annotations

import json
from typing import Any

from dra_spawner.commands.trying.findings import ChoiceState, Tried, judged
from dra_spawner.commands.trying.try_command import report_json, tried_lines

SHARE = {"capacity": "memory", "amount": "10Gi", "total": "40Gi", "text": "10 GiB of 40 GiB"}
GPU = {
    "driver": "gpu.nvidia.com",
    "pool": "n1",
    "name": "gpu-0",
    "product": "A100",
    "share": [SHARE],
    "health": "healthy",
}
NIC = {"driver": "nic.example.com", "pool": "n1", "name": "nic-0", "network": {"interface": "net1", "present": False}}
SICK = {**GPU, "health": "unhealthy", "health_sentence": "Its driver reports an error."}
SMI = {"gpus": ["A100, GPU-1, 40960 MiB"], "mig": [], "problem": ""}
TERMINAL = "\x1b[31mred\x1b[0m\n\u202egnp.exe"


def by_whoami(*devices: Any, **more: Any) -> dict[str, Any]:
    answer = {"known": True, "sentence": "", "node": "n1", "warm": True, "place": "p", "devices": [*devices], **more}
    return {"whoami": {"by": "whoami", "answer": answer}, "nvidia_smi": SMI}


CASES: tuple[tuple[str, Any, bool | None, ChoiceState, str], ...] = (
    ("a share", by_whoami(GPU), True, ChoiceState.WORKS, "10 GiB of 40 GiB memory of gpu-0 (A100) on n1, warm"),
    ("no device wanted", by_whoami(), False, ChoiceState.WORKS, "It has no device, as it asks for none."),
    ("a lost device", by_whoami(), True, ChoiceState.FAILS, "The server has no device, although the choice asks for one."),
    ("nothing known of the choice", by_whoami(), None, ChoiceState.WORKS, "It has no device"),
    ("a sick device", by_whoami(SICK), True, ChoiceState.FAILS, "gpu-0 is not healthy: Its driver reports an error."),
    ("a card that is missing", by_whoami(NIC), True, ChoiceState.FAILS, "interface net1 is not in the server."),
    (
        "a GPU that is missing",
        {**by_whoami(GPU), "nvidia_smi": {"gpus": [], "mig": [], "problem": "Driver/library version mismatch"}},
        True,
        ChoiceState.FAILS,
        "nvidia-smi sees no GPU in the server: Driver/library version mismatch",
    ),
    ("no nvidia-smi", {**by_whoami(GPU), "nvidia_smi": {}}, True, ChoiceState.WORKS, "10 GiB of 40 GiB"),
    (
        "another vendor's device beside nvidia-smi",
        {**by_whoami({**GPU, "driver": "other"}), "nvidia_smi": {"gpus": []}},
        True,
        ChoiceState.WORKS,
        "10 GiB",
    ),
    ("a hub that was asked itself", {"whoami": {"by": "hub", "answer": {"version": 1, "devices": []}}}, False, ChoiceState.WORKS, ""),
    ("a later version", {"whoami": {"by": "hub", "answer": {"version": 2}}}, True, ChoiceState.UNSEEN, "of another version"),
    ("a hub that refuses", {"whoami": {"problem": "the hub answers 404"}}, True, ChoiceState.UNSEEN, "the hub answers 404"),
    ("not known", by_whoami(known=False, sentence="The hub is away."), True, ChoiceState.UNSEEN, "The hub is away."),
    ("nothing", {}, True, ChoiceState.UNSEEN, "the server does not say it"),
    ("lists for objects", {"whoami": [], "nvidia_smi": 3}, True, ChoiceState.UNSEEN, "the server does not say it"),
    ("no list", by_whoami() | {"nvidia_smi": {"gpus": {"a": 1}}}, False, ChoiceState.WORKS, ""),
    ("strange devices", by_whoami(3, None, {"share": [7], "network": []}), True, ChoiceState.WORKS, ""),
)  # fmt: skip


def test_choices_work_or_not() -> None:
    problems = []
    for name, found, wants, state, sentence in CASES:
        tried = judged("gpu-slice", found, wants)
        if tried.state is not state or sentence not in tried.sentence:
            problems.append(f"{name}: {tried.state}, {tried.sentence}")
    assert not problems, "\n".join(problems)


def test_no_server_writes_control_characters_to_a_terminal() -> None:
    found = by_whoami({**GPU, "name": TERMINAL, "product": TERMINAL}, node=TERMINAL)
    found["nvidia_smi"] = {"gpus": [TERMINAL] * 1000}
    tried = judged(TERMINAL, found, wants_devices=True)
    lines = list(tried_lines(tried))
    assert all(line.isprintable() for line in lines), lines
    assert len(lines) < 100
    assert json.loads(report_json("http://hub", [tried], [TERMINAL]))["not_removed"] == [TERMINAL]


def test_phases_are_told_in_their_order() -> None:
    tried = Tried("cpu", ChoiceState.FAILS, "It failed.", {"removal": 2.04, "hub": 0.31})
    assert list(tried_lines(tried)) == ["fails   cpu: It failed.", "        hub 0.3 s, removal 2.0 s"]
