"""Items that are sent to the progress page."""

from __future__ import annotations

from dra_spawner.spawner.progress.start_messages import StartMessages, page_html
from dra_spawner.spawner.progress.start_progress import (
    elapsed,
    longer_waiting,
    progress_items,
    queue_sentence,
    waiting_since,
)
from tests.all_of_them import all_of_them
from tests.jumping_loop import run_jumping


def event(uid, message, reason="FailedScheduling"):
    return {"metadata": {"uid": uid}, "message": message, "reason": reason, "type": "Warning", "lastTimestamp": "T"}


async def items_of(events, line):
    return [item async for item in progress_items(lambda: events, lambda: line, lambda: True)]


async def test_events_are_for_the_log_and_the_line_is_for_the_user():
    (item,) = await items_of([event("a", "0/4 nodes are available")], "All devices are in use.")
    assert item["message"] == "T [Warning] 0/4 nodes are available"
    assert item["html_message"] == (
        '<span class="dra-line">All devices are in use.</span>'
        '<span class="dra-event">T [Warning] 0/4 nodes are available</span>'
    )
    assert item["progress"] == 30


async def test_a_line_without_an_event_does_not_move_the_bar():
    (item,) = await items_of([], "Your server is being prepared.")
    assert item == {
        "progress": 0,
        "message": "Your server is being prepared.",
        "html_message": '<span class="dra-line">Your server is being prepared.</span>',
    }


def test_each_item_has_the_last_number_and_none_is_smaller():
    """Clients of JupyterHub's progress API read the number of each item."""
    events, lines, looks = [event("a", "one")], ["first", "first", "second", "third"], []

    def line():
        looks.append(1)
        events.extend([event("b", "two"), event("c", "three")] if len(looks) == 3 else ())
        return lines[min(len(looks), len(lines)) - 1]

    async def numbers():
        return [item["progress"] async for item in progress_items(lambda: list(events), line, lambda: len(looks) > 4)]

    assert run_jumping(numbers()) == [30, 30, 50, 63]


async def test_foreign_text_stays_text():
    (item,) = await items_of([event("a", "<script>alert(1)</script>")], "<img src=x onerror=alert(1)>")
    assert "<script" not in item["html_message"]
    assert "<img" not in item["html_message"]
    assert "&lt;script&gt;" in item["html_message"]
    assert "<b" not in page_html("<b>", "<b>")


def test_a_short_start_shows_no_duration():
    assert elapsed(9, 600) == ""
    assert elapsed(130, 600) == "(2 min of at most 10 min)"


def pending_server(classes, created, *, is_scheduled=False):
    condition = {"type": "PodScheduled", "status": str(is_scheduled), "reason": "" if is_scheduled else "Unschedulable"}
    pod = {"metadata": {"creationTimestamp": created}, "spec": {}, "status": {"conditions": [condition]}}
    return frozenset(classes.split()), pod


def test_a_server_queues_behind_pending_servers_for_the_same_devices():
    found = waiting_since(
        [
            pending_server("gpu", "2026-01-01T10:00:05Z"),
            pending_server("gpu", "2026-01-01T10:00:00Z"),
            pending_server("gpu", "2026-01-01T10:00:00Z", is_scheduled=True),
            pending_server("gpu", "2026-01-01T11:00:00Z"),
            pending_server("gpu nic", "2026-01-01T10:00:00Z"),
            pending_server("nic", "2026-01-01T10:00:00Z"),
            pending_server("", "2026-01-01T10:00:00Z"),
            (frozenset({"gpu"}), {"metadata": {}}),
        ]
    )
    behind = {
        each: longer_waiting(found, frozenset(each.split()), "2026-01-01T10:30:00Z") for each in ("gpu", "nic", "")
    }
    assert behind == {"gpu": 3, "nic": 2, "": 0}


@all_of_them(
    "number, sentence",
    [(0, ""), (1, "One other server has waited longer."), (3, "3 other servers have waited longer.")],
)
def test_the_queue(number, sentence):
    assert queue_sentence(number) == sentence


class TestLine:
    """Which sentence a user sees."""

    def test_our_reason_is_kept_when_the_scheduler_tries_again(self):
        messages = StartMessages("jupyterhub", "jupyter-ada")
        messages.with_events([event("a", "0/4 nodes are available")])
        assert messages.line() == "Your server waits until a machine with all that it needs is free."
        messages.notify("All devices are in use.")
        messages.with_events([event("b", "0/5 nodes are available")])
        assert messages.line("One other server has waited longer.") == (
            "All devices are in use. One other server has waited longer."
        )

    def test_devices_and_node_come_first(self):
        messages = StartMessages("jupyterhub", "jupyter-ada")
        messages.notify("All devices are in use.")
        messages.found_place("15 GiB of gpu-3 on node-2, already prepared")
        assert messages.line() == (
            "Yours: 15 GiB of gpu-3 on node-2, already prepared. A machine was found. Your server is being prepared there."
        )
        messages.with_events([event("a", "Pulling image x", "Pulling")])
        assert messages.line().endswith("is being downloaded. This may take some minutes.")
        messages.lost_place()
        assert not messages.line().startswith("Yours")

    def test_a_warm_claim_has_the_name_of_its_server(self):
        messages = StartMessages("jupyterhub", "jupyter-ada")
        messages.rename(["placeholder-abc-gpu"], "jupyter-ada")
        (shown,) = messages.with_events([event("a", "claim placeholder-abc-gpu is not ready")])
        assert shown["message"] == "claim jupyter-ada is not ready"

    def test_an_unknown_event_changes_nothing(self):
        messages = StartMessages("jupyterhub", "jupyter-ada")
        before = messages.line()
        messages.with_events([{"metadata": {"uid": "a"}}, event("b", "?", "SomethingNew")])
        assert messages.line() == before
