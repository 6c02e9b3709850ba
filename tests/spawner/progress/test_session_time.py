"""The maximum lifetime of a server: what counts, what is said, and that nothing ends early."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from traitlets import TraitError

from dra_spawner.spawner.progress.server_record import ServerRecord
from dra_spawner.spawner.progress.session_time import SessionTime
from dra_spawner.spawner.server_context import parts_of
from tests.all_of_them import all_of_them
from tests.spawner.hub_side import HubSide

NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)
DAY = 24 * 3600
#: Seconds between looks, and whether the hub was away for them.
LOOKS = st.lists(st.tuples(st.floats(0, 2 * DAY), st.booleans()), max_size=30)


@given(LOOKS, st.integers(600, 2 * DAY), st.integers(120, DAY))
def test_no_time_of_a_hub_that_was_away_counts_and_each_end_has_its_notice(
    looks: list[tuple[float, bool]], limit: int, notice: int
) -> None:
    session, now, up = SessionTime(limit, notice, seen_at=0.0), 0.0, 0.0
    is_warned = session.ends_soon
    for seconds, is_away in looks:
        if is_away:  # the monotonic clock of another process begins anywhere
            stored = SessionTime.of_state(session.state())
            assert stored is not None
            session, now = stored.at(now - 1e6), now - 1e6
        else:
            session, now, up = session.at(now + seconds), now + seconds, up + seconds
        assert session.ran <= up + len(looks), "seconds are rounded when they are stored"
        assert not session.is_over or is_warned
        is_warned = session.ends_soon


def test_what_the_user_reads() -> None:
    session = SessionTime(8 * 3600, 900, seen_at=100.0)
    assert session.at(100.0).sentence(NOON) == "It ends at 2026-03-29 20:00 UTC, in 8 h."
    late = session.at(100.0 + 8 * 3600 - 600)
    assert late.sentence(NOON) == "It ends at 2026-03-29 12:10 UTC, in 10 min. Save your work."
    assert late.as_json() == {"ends_in_seconds": 600, "ends_soon": True}
    assert session.end_sentence == "It ran for 8 h, the longest time of its choice. You may start it again."


@all_of_them(
    "stored, left",
    {
        "as it was": ({"limit": 3600, "notice": 900, "ran": 600}, 3000),
        "over while the hub was away: the user is warned again": ({"limit": 3600, "notice": 900, "ran": 9999}, 120),
        "nothing": (None, None),
        "a text": ("3600", None),
        "text in it": ({"limit": "3600", "notice": 900, "ran": 600}, None),
        "a part is missing": ({"limit": 3600, "ran": 600}, None),
        "no time at all": ({"limit": 0, "notice": 900, "ran": 600}, None),
        "shorter than may be set": ({"limit": 30, "notice": 900, "ran": 0}, None),
        "without notice": ({"limit": 3600, "notice": 0, "ran": 0}, None),
        "infinite": ({"limit": float("inf"), "notice": 900, "ran": 0}, None),
        "not a number": ({"limit": 3600, "notice": 900, "ran": float("nan")}, None),
        "negative": ({"limit": 3600, "notice": 900, "ran": -5}, None),
        "true": ({"limit": 3600, "notice": 900, "ran": True}, None),
    },
)
def test_what_another_process_has_stored(stored: Any, left: float | None) -> None:
    record = ServerRecord.of_state({"dra_spawner": {"session": stored}})
    assert (record.session.seconds_left if record.session is not None else None) == left


async def test_a_profiles_lifetime_is_kept_over_a_restart_and_not_for_the_next_start(
    nowhere: HubSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere.spawner_config.devices_lifetime = 7200
    nowhere.spawner_config.profile_list = [
        {"display_name": slug, "slug": slug, "kubespawner_override": override}
        for slug, override in (
            ("usual", {}),
            ("short", {"devices_lifetime": 600, "devices_lifetime_notice": 120}),
            ("endless", {"devices_lifetime": 0}),
        )
    ]
    spawner = nowhere.user("ada").spawner
    pod = {"spec": {"resourceClaims": [{"name": "gpu"}]}}
    monkeypatch.setattr(type(parts_of(spawner).server), "pod", lambda _: pod)
    for slug, limit in (("short", 600), ("endless", None), ("usual", 7200), ("short", 600)):
        spawner.clear_state()
        spawner.user_options = {"profile": slug}
        await spawner.load_user_options()
        parts_of(spawner).home.record_place(parts_of(spawner).page.progress, None)
        # A change of the setting holds for servers that start later.
        nowhere.spawner_config.devices_lifetime = 7200
        restarted = nowhere.user("eve").spawner
        restarted.load_state(spawner.get_state())
        for each in (spawner, restarted):
            session = parts_of(each).home.session()
            assert (session.limit if session is not None else None) == limit, slug
    pod["spec"] = {}
    assert parts_of(spawner).home.session() is None, "servers without devices are not concerned"
    for wrong in (1, 599, -1, 10**9):
        with pytest.raises(TraitError):
            spawner.devices_lifetime = wrong
    assert timedelta(seconds=spawner.devices_lifetime_notice) >= timedelta(minutes=2)
