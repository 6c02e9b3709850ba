"""Targets that follow demand: the steps of scale-ahead and the planner's decisions, in virtual time."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from dra_spawner import names
from dra_spawner.history.records import TRIAL, NodeLeadTime
from dra_spawner.placeholders.planner.actions import CreatePlaceholder, DeletePlaceholder
from dra_spawner.placeholders.planner.targets.policy import ReplicaRange
from dra_spawner.scale_ahead.controller.demand_learning import CountedMinute
from dra_spawner.scale_ahead.controller.demand_settings import DemandOptions, ScaleAheadMode
from dra_spawner.scale_ahead.demand.estimators.whole_nodes import NewNodeSlots
from dra_spawner.scale_ahead.demand.minutes import minute_of
from dra_spawner.scale_ahead.demand.policies import (
    Buffer,
    Chain,
    DemandPolicy,
    Scheduled,
    Webhook,
    WebhookAnswer,
    Window,
)
from dra_spawner.scale_ahead.rehearsal.nodes.node_kinds import NodeKind
from dra_spawner.simulator.model.claims import ObjectKey
from tests.all_of_them import all_of_them
from tests.examples import example_count
from tests.placeholders.planner.autoscaler import Autoscaler, NodeGroup
from tests.placeholders.planner.objects import GPU, NAMESPACE, gpu_claim
from tests.placeholders.planner.simulated_cluster import START
from tests.scale_ahead.controller.following import KIND, LEAD, Following, entry


@pytest.mark.promise("A class of a calendar has its placeholders before it begins, and not long after.")
def test_a_class_has_its_placeholders_before_it_begins_and_not_long_after() -> None:
    found = Following(entry("30 of gpu within 10 min", START + timedelta(minutes=40)))
    found.world.node("a", cpu="100", gpus=40)
    targets = found.minutes(90)
    # A lead time and five minutes before the class begins.
    assert targets[20] == 1
    assert targets[26] == 30
    assert found.world.actions(DeletePlaceholder)
    assert targets[-1] < 5
    assert found.placeholders == targets[-1]
    last = found.world.actions(DeletePlaceholder)[-1]
    assert "expected within" in last.reason or "floor" in last.reason


def test_targets_of_later_minutes_come_true() -> None:
    """From the first minute on, if no user comes earlier."""
    found = Following(entry("30 of gpu within 10 min", START + timedelta(minutes=40)))
    (group,) = found.groups
    entries = found.ahead.calendars.occurrences(START, timedelta(hours=12))
    begin = minute_of(START)
    minutes = range(begin + 1, begin + 91)
    said = found.ahead.ahead(group, minutes, entries)
    assert said is not None
    assert said == found.minutes(90)
    assert max(said) == 30
    assert found.ahead.ahead(group, minutes, ()) == [1] * 90, "without the entry there is the floor"
    narrow = replace(group, replicas=ReplicaRange(2, 9))
    assert set(found.ahead.ahead(narrow, minutes, entries) or ()) == {2, 9}
    found.ahead.end()
    assert found.ahead.ahead(group, minutes, entries) is None


@all_of_them("floor, are_known", {"no placeholder": (0, True), "two": (2, True), "nodes are not known": (0, False)})
def test_the_target_of_an_entry_does_not_fall_before_it_begins(floor: int, are_known: bool) -> None:
    """Its own placeholders change what is known of nodes, and with it when they had to be ordered: they stay."""
    found = Following(entry("48 of gpu", START + timedelta(minutes=70)), replicas=ReplicaRange(floor, 80))
    found.ahead.settings = replace(
        found.ahead.settings, options=DemandOptions(node_lead=LEAD, node_starts_per_minute=1)
    )
    if not are_known:
        found.ahead.slots = lambda view, group: NewNodeSlots()
    for number in range(6):
        found.world.node(f"n{number}", cpu="100", gpus=8)
    targets = found.minutes(70)
    # Six nodes start in six minutes. Until a placeholder shows one, a node is assumed to take one server.
    opens = 5 + 10 + (6 if are_known else 48)
    assert targets == [floor] * (69 - opens) + [48] * (opens + 1)
    assert (found.world.made, len(found.world.ended())) == (48, 0)


@all_of_them("users", (48, 200)[: example_count(11)])
def test_nodes_of_a_class_on_a_cold_cluster_are_ordered_once(users: int) -> None:
    """From the evening before: no node runs for nothing, and the node-hours are the least that the limit allows."""
    nodes = users // 8
    begins = START + timedelta(hours=14)
    found = Following(entry(f"{users} of gpu", begins), replicas=ReplicaRange(0, 250))
    found.slots.kinds = (NodeKind("g8", 8, (LEAD,), starts_per_minute=1, labels=(("pool", "g8"),)),)
    pull = timedelta(minutes=1)
    group = NodeGroup("100", 8, least=0, boot=LEAD - pull, publish=timedelta(0), pull=pull, starts_per_minute=1)
    autoscaler, counts = Autoscaler(found.world, group), []
    while found.world.now < begins:
        found.world.pass_time(minutes=1)
        found.advance()
        while found.world.decide().actions or autoscaler.run():
            found.world.schedule()
        counts.append(autoscaler.nodes)
    assert len(autoscaler.ordered_at) == max(counts) == nodes
    assert counts == sorted(counts), "no node came for nothing"
    assert len(found.world.warm(GPU)) == users
    assert (found.world.made, len(found.world.ended())) == (users, 0)
    # The last one is complete five minutes before the begin; the class has its nodes for an hour and a half.
    an_hour_and_a_half = timedelta(minutes=90).total_seconds()
    least = sum((LEAD + timedelta(minutes=5 + each)).total_seconds() + an_hour_and_a_half for each in range(nodes))
    assert autoscaler.node_seconds + nodes * an_hour_and_a_half <= 1.05 * least


def test_a_placeholder_handed_over_to_an_expected_user_is_not_replaced() -> None:
    """Otherwise nodes would be ordered for users that already came, until the next forecast counts these users."""
    begins = START + timedelta(minutes=20)
    found = Following(entry("30 of gpu within 1 min", begins), replicas=ReplicaRange(1, 80))
    found.world.node("a", cpu="100", gpus=30)
    found.minutes(20)
    assert found.placeholders == 30
    for number in range(25):
        warm = min(found.world.warm(GPU), key=lambda each: each.key)
        (claim,) = warm.claims
        found.world.reserve(claim, f"user-{number}", found.world.now + timedelta(seconds=30))
        found.world.settle()
        assert found.placeholders == 30 - number
        found.world.user(f"user-{number}", claim_names={"gpu": claim.name})
        found.world.relabel("Pod", ObjectKey(NAMESPACE, f"user-{number}"), {names.SHAPE: GPU.id})
        found.world.settle()
        found.launch(uid=f"user-{number}")
    assert found.placeholders == 5
    assert not any(each.is_pending for each in found.world.view().placeholders.values()), "none asks for a node"
    # The next forecast knows the users that came before its minute, and the first range knows the others.
    found.world.pass_time(minutes=1)
    found.launch(uid="user-25")
    found.world.user("user-25", {"gpu": gpu_claim()})
    assert found.advance()
    assert found.target == 5
    (replicas,) = found.ahead.ranges(found.groups).values()
    assert replicas.with_servers(found.world.view().servers_of(GPU.id)).min == 4


def test_users_beyond_a_limit_get_the_placeholders_of_those_who_came() -> None:
    """Of 12 users 8 may have placeholders: for each of the first four who come, one of the others gets one at once."""
    found = Following(entry("12 of gpu", START + timedelta(minutes=20)), replicas=ReplicaRange(1, 8))
    found.world.node("a", cpu="100", gpus=30)
    found.minutes(20)
    (replicas,) = found.ahead.ranges(found.groups).values()
    assert [replicas.with_servers(number).min for number in (0, 1, 4, 5, 9, 12, 20)] == [8, 8, 8, 7, 3, 1, 1]
    assert replicas.with_servers(3).with_servers(5).min == 7


def test_launches_that_no_calendar_announced_lower_no_target() -> None:
    found = Following(replicas=ReplicaRange(4, 80))
    found.world.node("a", cpu="100", gpus=30)
    found.minutes(2)
    found.world.user("ada", {"gpu": gpu_claim()})
    found.world.settle()
    assert found.placeholders == 4


def test_a_placeholder_says_why_it_is_there() -> None:
    found = Following(entry("30 of gpu", START + timedelta(minutes=10)))
    found.world.node("a", cpu="100", gpus=40)
    found.minutes(2)
    reasons = {each.reason for each in found.world.actions(CreatePlaceholder)}
    assert any("target 30 (30 placeholders: calendar (physics: 30 to come)), present" in each for each in reasons)


@pytest.mark.promise("A mode that does not act changes nothing.")
@pytest.mark.parametrize("mode", [ScaleAheadMode.OBSERVE, ScaleAheadMode.ADVISE])
def test_a_mode_that_does_not_act_changes_nothing(mode: ScaleAheadMode) -> None:
    found = Following(entry("30 of gpu", START + timedelta(minutes=10)), mode=mode)
    found.world.node("a", cpu="100", gpus=40)
    assert found.minutes(3)[-1] == 30
    assert found.ahead.ranges(found.groups) == {}
    assert found.placeholders == 1
    assert not found.ahead.keeps_surplus


def test_targets_rise_with_launches_and_stay_within_the_limits() -> None:
    found = Following(replicas=ReplicaRange(2, 12))
    found.world.node("a", cpu="100", gpus=40)
    assert found.minutes(1) == [2]
    targets = []
    for _ in range(10):
        found.launch()
        found.launch()
        targets += found.minutes(1)
    assert targets == sorted(targets)
    assert targets[-1] == 12
    forecast = found.ahead.forecasts["gpu"].forecast
    assert forecast.limited_to == 12
    # Many launches are no alarm: the administrator sets the limit.
    assert found.ahead.problems(found.world.now) == ()


def test_a_number_that_is_set_anew_is_the_target_before_the_next_forecast() -> None:
    lived = Following(replicas=ReplicaRange(3, 40))
    assert lived.minutes(2) == [3, 3]
    for least in (2, 5):
        lived.replicas = ReplicaRange(least, 40)
        (found,) = lived.ahead.ranges(lived.groups).values()
        assert (found.min, found.max, found.least) == (least, 40, least)
    assert lived.minutes(1) == [5]


def test_launches_of_other_choices_do_not_count() -> None:
    found = Following()
    for _ in range(20):
        found.launch(choice="cpu", profile="cpu")
    assert found.minutes(2) == [1, 1]
    for number in range(20):
        found.launch(uid=f"other-{number}", choice="gpu/image=a")
    assert found.minutes(1)[0] > 1


def test_servers_of_try_are_nobodys_demand() -> None:
    """They raise no target, and lower none that is for users who are still to come."""
    found = Following(entry("5 of gpu within 1 min", START + timedelta(minutes=20)), replicas=ReplicaRange(1, 80))
    found.world.node("a", cpu="100", gpus=30)
    for number in range(20):
        found.launch(uid=f"trial-{number}", source=TRIAL)
    assert found.minutes(2)[-1] == 1
    found.minutes(18)
    for name in ("trial", "ada"):
        found.world.user(name, {"gpu": gpu_claim()})
        found.world.relabel("Pod", ObjectKey(NAMESPACE, name), {names.SHAPE: GPU.id})
    found.world.relabel("Pod", ObjectKey(NAMESPACE, "trial"), {names.SHAPE: GPU.id, names.TRIAL: names.TRUE})
    view = found.world.view()
    (replicas,) = found.ahead.ranges(found.groups).values()
    assert (replicas.min, replicas.with_servers(view.servers_of(GPU.id)).min) == (5, 4), "only ada came"
    found.launch(uid="ada")
    found.world.pass_time(minutes=1)
    found.advance()
    made = found.ahead.forecasts["gpu"]
    assert (made.situation.pending_spawns, made.servers) == (1, 1)


def test_minutes_that_were_missed_are_made_up_for() -> None:
    steady, late = Following(), Following()
    for minute in range(12):
        for found in (steady, late):
            found.launch(asked=START + timedelta(minutes=minute), uid=f"{minute}")
            found.world.now = START + timedelta(minutes=minute + 1)
        steady.advance()
    late.advance()
    assert late.target == steady.target > 1
    assert not late.advance()


def test_no_surplus_until_targets_are_known() -> None:
    found = Following(replicas=ReplicaRange(0, 40))
    found.world.node("a", cpu="100", gpus=40)
    for _ in range(5):
        found.world.create_placeholder(GPU)
    found.world.policy = replace(found.configured, keeps_surplus=found.ahead.keeps_surplus)
    found.world.run(5)
    assert found.placeholders == 5
    found.minutes(2)
    assert found.placeholders == 0


def test_pending_servers_and_reservations_count() -> None:
    found = Following(replicas=ReplicaRange(0, 40))
    found.ahead.pending_spawns = lambda choice: 2 if choice == "gpu/image=a" else 0
    found.world.user("anna", {"gpu": gpu_claim()})
    found.world.pass_time(minutes=1)
    found.advance()
    situation = found.ahead.forecasts["gpu"].situation
    assert (situation.present, situation.pending_spawns, situation.reserved) == (0, 3, 0)
    assert found.target == 3


def test_the_lead_time_is_that_of_the_nodes_in_use() -> None:
    found = Following(replicas=ReplicaRange(1, 40))
    found.world.node("a", gpus=4)
    found.world.run(1)
    found.world.now = START + timedelta(minutes=1)
    found.advance()
    assert found.ahead.forecasts["gpu"].situation.lead == LEAD

    def seen(uid: str, kind: str, minutes: float, asked: float = 0.0) -> NodeLeadTime:
        begin = START - timedelta(minutes=asked)
        created = START
        return NodeLeadTime(
            uid, uid, kind, created, begin if asked else None, images=START + timedelta(minutes=minutes)
        )

    found.ahead.record_all([seen("1", "other", 30), seen("2", "other", 30)])
    found.minutes(1)
    assert found.ahead.forecasts["gpu"].situation.lead == timedelta(minutes=30)
    # This is the kind in the label of node a. The same node counts once.
    found.ahead.record_all([seen("3", "g4", 4, asked=1)] * 3)
    found.minutes(1)
    assert found.ahead.forecasts["gpu"].situation.lead == timedelta(minutes=5)


def test_a_forecast_knows_whether_others_are_on_its_nodes() -> None:
    """Only where they are not, free slots get no placeholder."""
    found = Following()
    found.world.node("a", cpu="100", gpus=8)
    found.world.user("ann", {"gpu": gpu_claim()})
    found.minutes(2)
    assert found.ahead.situations["gpu"].free_slots == 7
    found.ahead.has_autoscaler = lambda: False
    found.minutes(1)
    assert found.ahead.situations["gpu"].free_slots is None, "a placeholder costs no node, and is ready sooner"
    found.ahead.has_autoscaler = lambda: True
    found.world.user("ben")
    found.minutes(2)
    assert found.world.node_of("ben") == "a"
    assert found.ahead.situations["gpu"].free_slots is None


def test_a_policy_of_a_choice_and_one_of_all_others() -> None:
    day = Window(frozenset(range(7)), (START + timedelta(minutes=5)).time(), (START + timedelta(hours=2)).time())
    policies: dict[str, DemandPolicy] = {"gpu/image=a": Scheduled((day,), Buffer(9)), "*": Buffer(3)}
    found = Following(policies=policies)
    found.world.pass_time(minutes=1)
    found.advance()
    # Before the window no policy applies: the configured target counts.
    assert found.ahead.forecasts == {}
    assert found.ahead.ranges(found.groups) == {}
    found.world.pass_time(minutes=10)
    found.advance()
    assert found.target == 9


def test_a_webhook_that_is_down_counts_until_its_answer_is_too_old_and_then_the_next_policy_does() -> None:
    policies: dict[str, DemandPolicy] = {"*": Chain((Webhook("ours", timedelta(minutes=7)), Buffer(4)))}
    found = Following(policies=policies)
    found.world.node("a", cpu="100", gpus=40)
    found.ahead.webhooks = lambda choice: {"ours": WebhookAnswer(11, START)}
    assert found.minutes(10) == [11] * 7 + [4] * 3
    assert found.placeholders == 4
    found.ahead.webhooks = lambda choice: {"ours": WebhookAnswer(9, found.world.now)}
    assert found.minutes(1) == [9]


def test_hits_idle_hours_and_outcomes_of_forecasts_are_counted() -> None:
    found = Following(replicas=ReplicaRange(2, 40))
    found.world.node("a", cpu="100", gpus=40)
    found.minutes(2)
    found.launch(bound=found.world.now, warm=True)
    found.launch(bound=found.world.now, warm=False)
    found.launch(bound=found.world.now, warm=None)
    found.minutes(15)
    assert found.ahead.launches == {("gpu", True): 1, ("gpu", False): 1}
    assert found.ahead.idle_hours["gpu"] >= 2 * 15 / 60
    assert sum(found.ahead.judged.values()) > 0


async def test_learning_from_the_history_equals_learning_live() -> None:
    lived, taught = Following(), Following()
    begin = minute_of(START)
    past = [CountedMinute(begin + minute, "gpu", arrivals=1 + minute % 3) for minute in range(0, 240, 2)]
    past += [CountedMinute(begin + minute, "gpu/image=a", departures=1) for minute in range(30, 240, 3)]
    numbers = itertools.count()
    for minute in sorted({each.minute for each in past}):
        at = datetime.fromtimestamp(minute * 60, UTC)
        for each in (each for each in past if each.minute == minute):
            for _ in range(each.arrivals):
                lived.launch(asked=at, uid=f"in-{next(numbers)}")
            for _ in range(each.departures):
                lived.launch(asked=START - timedelta(days=1), ended=at, uid=f"out-{next(numbers)}")
        lived.world.now = at + timedelta(minutes=1)
        lived.advance()
    now = START + timedelta(minutes=245)
    for found in (lived, taught):
        found.world.now = now
    taught.ahead.begin(now)
    await taught.ahead.learn(past, taught.groups)
    lived.advance()
    for found in (lived, taught):
        found.world.now = now + timedelta(minutes=1)
        found.advance()
    assert taught.ahead.forecasts["gpu"].forecast == lived.ahead.forecasts["gpu"].forecast
    assert taught.target > 3


@all_of_them("seed", range(example_count(10)))
async def test_a_restart_changes_no_target(seed: int) -> None:
    """While a class comes, or at any other minute: of the day after it, no target differs by more than one placeholder.

    Announced classes would be surprises for a leader that knows the launches alone, and raise the targets for weeks.
    Calendars know little of the past.
    """
    random = Random(seed)
    restart, down = random.randrange(300, 1430), random.randrange(3)
    minutes = [*(random.randrange(60, 250) for _ in range(3)), restart - 5, restart + 100, restart + 700]
    classes = [START + timedelta(minutes=each) for each in minutes]
    entries = [entry("40 of gpu within 10 min", at, f"class {at}") for at in classes]
    lived, again = Following(*entries), Following(*entries[-3:])
    counts = Counter[int]()
    for minute in range(restart + 1440):
        at = START + timedelta(minutes=minute)
        usual = int(random.expovariate(2))
        rush = sum(4 for each in classes if timedelta(0) <= at - each < timedelta(minutes=10))
        counts[minute_of(at)] = usual + rush
        leaders = [lived, again] if minute > restart + down else [lived]
        for found in leaders:
            for number in range(usual + rush):
                found.launch(asked=at, uid=f"{minute}-{number}")
            found.world.now = at + timedelta(minutes=1)
            found.advance()
        if minute == restart:
            stored = {each.group: each.state for each in lived.ahead.learned()}
        if minute == restart + down:
            again.world.now = at + timedelta(minutes=1)
            again.ahead.begin(again.world.now)
            past = [CountedMinute(each, "gpu", number) for each, number in counts.items() if number]
            await again.ahead.learn(past, again.groups, stored, again.world.view())
        if minute > restart + down:
            assert abs(lived.target - again.target) <= 1, (restart, minute)


def test_a_former_leader_forgets() -> None:
    found = Following(entry("30 of gpu", START + timedelta(minutes=10)))
    found.minutes(1)
    found.ahead.end()
    assert found.ahead.forecasts == {}
    assert not found.advance()
    assert not found.ahead.keeps_surplus
    found.launch()
    found.ahead.begin(found.world.now)
    assert found.ahead.keeps_surplus


def test_without_groups_the_minutes_wait() -> None:
    found = Following()
    found.launch()
    found.world.pass_time(minutes=1)
    assert not found.ahead.advance(found.world.view(), (), KIND)
    found.world.pass_time(minutes=1)
    found.advance()
    demand = found.ahead.demand_of("gpu")
    assert demand is not None
    assert demand.record.counts.arrivals(0, 10**9) == 1
