"""What is remembered of a start that an earlier process of the hub began."""

from dra_spawner.spawner.server_context import parts_of
from tests.all_of_them import all_of_them


@all_of_them(
    "pod, begun_here, is_told",
    {
        "a start of the hub before": ({"status": {"phase": "Pending"}}, False, True),
        "a start of this hub": ({"status": {"phase": "Pending"}}, True, False),
        "a server that runs": ({"status": {"phase": "Running"}}, False, False),
        "no pod": (None, False, False),
    },
)
async def test_a_start_that_a_restarted_hub_gives_up(nowhere, monkeypatch, pod, begun_here, is_told):
    parts = parts_of(nowhere.user("ada").spawner)
    monkeypatch.setattr(type(parts.server), "pod", lambda _: pod)
    if begun_here:
        parts.home.record_start(parts.page.progress)
    parts.home.record_stop()
    assert ("The hub was restarted" in parts.home.record.failure) is is_told
    assert not parts.home.record.was_ended
