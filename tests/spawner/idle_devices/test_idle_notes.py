"""What a warned user reads, and why a server was ended."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from dra_spawner import names
from dra_spawner.fairness.idle.notices import Notice
from dra_spawner.spawner.idle_devices.idle_notes import idle_note, kept_sentence, notice_of_pod, stop_sentence
from tests.all_of_them import all_of_them

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
WARNED = Notice(NOW - MINUTE, NOW - 60 * MINUTE, NOW + 14 * MINUTE, keeps_left=1)
HEAD = "Nothing has computed on this server for 1 h, so it is stopped "
TAIL = ", and others can use its devices. Files stay; variables of notebooks are lost."


@all_of_them("notice, sentence, may_keep", {
    "warned": (WARNED, f"{HEAD}in about 14 min{TAIL}", True),
    "late": (Notice(NOW, NOW - 60 * MINUTE, NOW, keeps_left=1), f"{HEAD}in about 60 seconds{TAIL}", True),
    "kept too often": (
        Notice(NOW, NOW - 60 * MINUTE, NOW + 14 * MINUTE),
        f"{HEAD}in about 14 min{TAIL} It cannot be kept again: run a cell if you need it.", False,
    ),
})  # fmt: skip
def test_a_warning(notice: Notice, sentence: str, may_keep: bool) -> None:
    found = idle_note(notice, NOW)
    assert found is not None
    assert (found["sentence"], found["may_keep"]) == (sentence, may_keep)


def test_without_a_warning_nothing_is_said() -> None:
    assert idle_note(Notice(kept_until=NOW, kept=1), NOW) is None
    assert idle_note(Notice(warned_at=NOW), NOW) is None


def test_until_when_a_server_is_kept() -> None:
    kept = Notice(kept_until=NOW + 30 * MINUTE, kept=1, keeps_left=1)
    sentence = "It is kept for you until 2026-03-02 09:30 UTC, also if nothing computes on it."
    assert [kept_sentence(kept, NOW + each * MINUTE) for each in (0, 29, 30)] == [sentence, sentence, ""]
    last = Notice(kept_until=NOW + 30 * MINUTE, kept=2)
    assert kept_sentence(last, NOW) == f"{sentence} After that it cannot be kept again."
    assert kept_sentence(WARNED, NOW) == ""


@all_of_them("pod", {
    "none": None, "empty": {}, "no annotations": {"metadata": {"annotations": None}},
    "a number": {"metadata": {"annotations": {names.IDLE_NOTICE: 5}}},
    "nonsense": {"metadata": {"annotations": {names.IDLE_NOTICE: "{"}}},
})  # fmt: skip
def test_a_pod_that_says_nothing(pod: Any) -> None:
    assert notice_of_pod(pod) == Notice()


def test_the_end_of_a_server_is_that_of_a_stop_for_some_minutes() -> None:
    pod = {"metadata": {"annotations": {names.IDLE_NOTICE: Notice(NOW, NOW - 60 * MINUTE, NOW, stopped_at=NOW).text()}}}
    notice = notice_of_pod(pod)
    sentence = "Nothing computed on it for 1 h, so its devices are free for others now."
    assert [stop_sentence(notice, NOW + each * MINUTE) for each in (-1, 0, 5, 6)] == [sentence, sentence, sentence, ""]
    assert stop_sentence(WARNED, NOW) == ""
