"""Random arrivals: users join, leave, start in every way and at any time, devices break, clocks jump, leaders change."""

from __future__ import annotations

import contextlib
from datetime import timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dra_spawner.fairness.tickets.ticket_book import TicketRefused
from dra_spawner.placeholders.lifecycle import TicketEvent, TicketState
from dra_spawner.simulator.model.claims import ObjectKey
from tests.bench.queue_day import QueueDay
from tests.examples import example_count
from tests.placeholders.planner.objects import GPU, NAMESPACE, gpu_claim, user_shape
from tests.placeholders.planner.ticket_world import TicketWorld

BIG = user_shape(GPU.claims, cpu="2")
TWO = user_shape({"gpu": gpu_claim(count=2)})
CHOICES = {"gpu": GPU, "big": BIG, "two": TWO}
USERS = ("ada", "bob", "eve", "dan", "kim")
_HOLD = timedelta(minutes=5)
_STEP = 5.0


def check_holds(world: TicketWorld, first_event: int, waiting: list[tuple[str, str]]) -> None:
    """Each device goes to the first who waits for its choice; a choice behind another one's first gets none before."""
    for _, user, event in world.events[first_event:]:
        if event is TicketEvent.HOLD:
            choices = [choice for name, choice in waiting if name == user]
            firsts = {choice: next(name for name, each in waiting if each == choice) for choice in choices}
            assert user in firsts.values(), (user, waiting)


def check_now(world: TicketWorld) -> None:
    held = [each for each in world.book.open if each.state is TicketState.HELD]
    assert len({each.placeholder_uid for each in held}) == len(held), "one placeholder for two tickets"
    opened = [(each.user, each.choice) for each in world.book.open]
    assert len(opened) == len(set(opened))
    for each in held:
        assert each.until is not None
        assert each.until - world.now <= _HOLD + timedelta(minutes=5)


@settings(max_examples=example_count(60), suppress_health_check=list(HealthCheck), deadline=None)
@given(st.data())
def test_random_arrivals(data: st.DataObject) -> None:
    world = TicketWorld(CHOICES, _HOLD, keep=timedelta(minutes=data.draw(st.sampled_from((0, 10)))))
    world.node("a", cpu="100", gpus=2)
    world.settle()
    running: list[str] = []
    for number in range(data.draw(st.integers(3, 18))):
        user, choice = data.draw(st.sampled_from(USERS)), data.draw(st.sampled_from(tuple(CHOICES)))
        match data.draw(
            st.sampled_from(("join", "join", "start", "start", "stop", "leave", "wait", "jump", "restart"))
        ):
            case "join":
                with contextlib.suppress(TicketRefused):
                    world.join(user, choice)
            case "start":
                server = f"{user}-{number}"
                waiting = any(each.state is TicketState.WAITING for each in world.book.open)
                how = world.start(user, choice, server)
                assert how != "direct" or not waiting, "nobody overtakes"
                if how != "behind":
                    running.append(server)
            case "stop" if running:
                server = running.pop(data.draw(st.integers(0, len(running) - 1)))
                if ObjectKey(NAMESPACE, server) in world.snapshot.pods:
                    world.leave(server)
            case "leave":
                found = world.book.find(user, choice)
                if found is not None and found.state.is_open:
                    world.leave_queue(user, choice)
            case "jump":
                world.now += timedelta(minutes=data.draw(st.integers(-30, 30)))
            case "restart":
                world.restart()
        for _ in range(data.draw(st.integers(1, 4))):
            first = len(world.events)
            waiting_now = [(each.user, each.choice) for each in world.book.open if each.state is TicketState.WAITING]
            world.schedule()
            world.decide()
            check_holds(world, first, waiting_now)
            check_now(world)
            world.pass_time(seconds=_STEP)
    # In the end all are served: nobody starves.
    for server in running:
        if ObjectKey(NAMESPACE, server) in world.snapshot.pods:
            world.leave(server)
    world.run(60, every_seconds=20)
    assert [each for each in world.book.open if each.state is TicketState.WAITING] == []
    assert world.held == []


def test_a_small_day_has_no_jump_no_idle_device_and_no_long_hold() -> None:
    """As `tests.bench.queue_day` measures large ones."""
    found = QueueDay(7, users=10, devices=4, hours=0.2).run()
    assert (found.overtaken, found.unserved) == (0, 0)
    assert found.longest_idle <= 60
    assert found.longest_hold <= 310
    assert found.taken + found.expired + found.left == 10
