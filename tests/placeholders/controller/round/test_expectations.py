"""A server with a placement is awaited until its pod exists."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from dra_spawner.placeholders.controller.round.expectations import Expectations
from dra_spawner.placeholders.planner.cluster.view import AwaitedServer
from dra_spawner.simulator.model.claims import ObjectKey
from tests.placeholders.controller.objects import shape

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
PLAIN = shape({})


def server(name: str, since: datetime = NOW) -> AwaitedServer:
    return AwaitedServer(ObjectKey("hub", name), PLAIN, since)


def test_a_server_is_awaited_until_its_pod_is_seen() -> None:
    expectations = Expectations()
    expectations.expect_server(server("ada"))
    expectations.expect_server(server("bob"))
    expectations.forget_awaited(NOW + timedelta(seconds=5), {ObjectKey("hub", "ada")})
    assert list(expectations.awaited) == [ObjectKey("hub", "bob")]
    expectations.forget_awaited(NOW + timedelta(seconds=6), set())
    assert list(expectations.awaited) == [ObjectKey("hub", "bob")], "a server that has ended is not awaited again"


def test_a_server_is_awaited_for_two_minutes_from_the_last_try() -> None:
    expectations = Expectations()
    expectations.expect_server(server("ada"))
    expectations.expect_server(server("ada", NOW + timedelta(minutes=1)))
    expectations.forget_awaited(NOW + timedelta(minutes=2, seconds=59), set())
    assert expectations.awaited
    expectations.forget_awaited(NOW + timedelta(minutes=3), set())
    assert not expectations.awaited
    expectations.expect_server(server("ada"))
    expectations.forget_awaited(NOW - timedelta(hours=1), set())
    assert not expectations.awaited, "the clock was set back"


def test_the_number_of_awaited_servers_is_bounded() -> None:
    expectations = Expectations()
    for number in range(700):
        expectations.expect_server(server(f"user-{number}"))
    assert len(expectations.awaited) == 500
    assert ObjectKey("hub", "user-699") in expectations.awaited
