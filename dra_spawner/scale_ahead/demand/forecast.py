"""The forecast of one profile group: the largest of what the estimators say, with its inputs and its reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from math import ceil, inf
from statistics import NormalDist

from dra_spawner.scale_ahead.calendars.occurrences import Occurrence
from dra_spawner.scale_ahead.demand.calibration import placeholders_for, spread
from dra_spawner.scale_ahead.demand.demand_record import DemandRecord, Statement
from dra_spawner.scale_ahead.demand.estimators.bursts import burst_estimate
from dra_spawner.scale_ahead.demand.estimators.calendar_entries import AwaitedUsers, awaited_users, calendar_estimate
from dra_spawner.scale_ahead.demand.estimators.estimates import Estimate, Source
from dra_spawner.scale_ahead.demand.estimators.floor import floor_estimate
from dra_spawner.scale_ahead.demand.estimators.pending_spawns import pending_estimate
from dra_spawner.scale_ahead.demand.estimators.reactive import reactive_estimate
from dra_spawner.scale_ahead.demand.estimators.seasonal import recurring_estimate, seasonal_estimate
from dra_spawner.scale_ahead.demand.estimators.whole_nodes import fewest_for_nodes, whole_nodes
from dra_spawner.scale_ahead.demand.minutes import minute_of, whole_minutes
from dra_spawner.scale_ahead.demand.settings import DemandSettings


@dataclass(frozen=True, slots=True)
class GroupSituation:
    """What is so at present, of one profile group."""

    lead: timedelta
    """Time from the order of a node until users are let in; a high quantile of what was seen."""
    present: int = 0
    """Servers that run."""
    pending_spawns: int = 0
    """Users whose server is starting, without node and without reservation."""
    reserved: int = 0
    """Placeholders that are reserved."""
    floor: int = 0
    """Placeholders that are wanted at all times."""
    most: int | None = None
    """The most placeholders that may be, or can be: a limit or a quota."""
    occurrences: tuple[Occurrence, ...] = ()
    """Calendar entries of about now, and of the next hours."""
    slots_per_node: int | None = None
    """Servers that fit a new node; None if it is not known."""
    node_starts_per_minute: float | None = None
    """New nodes in a minute at most; None if unlimited."""
    free_slots: int | None = None
    """Slots that are free on nodes with servers, and that no others can take; None where this is not so, or not known.
    Such a node stays without placeholders."""

    @property
    def starts_per_minute(self) -> float:
        """Placeholders that new nodes bring in a minute at most."""
        if self.node_starts_per_minute is None:
            return inf
        return self.node_starts_per_minute * (self.slots_per_node or 1)


@dataclass(frozen=True, slots=True)
class Forecast:
    """A number of placeholders, and how it came about."""

    placeholders: int
    estimates: tuple[Estimate, ...]
    """The inputs, in the order of `Source`."""
    lead: int = 0
    """Minutes that the estimates are about."""
    expected: float = 0.0
    """Launches less departures, the largest of all estimators and of the time of the hold."""
    deviation: float = 0.0
    """Standard deviation of it."""
    factor: float = 0.0
    """Safety factor: how many deviations are added."""
    decided_by: Source = Source.FLOOR
    """The input that the number comes from."""
    is_held: bool = False
    """Whether demand has fallen and the number is still that of some minutes ago."""
    limited_to: int | None = None
    """The limit, if it makes the number smaller than wanted."""
    kept: int = 0
    """Placeholders that only keep a node for a while, as its servers may be back soon."""
    filled: int = 0
    """Placeholders that only fill the last node."""
    spared: int = 0
    """Placeholders that are left out, as their slots are free on the nodes that the others need."""

    @property
    def reason(self) -> str:
        """One line for people."""
        number = f"{self.placeholders} placeholder{'' if self.placeholders == 1 else 's'}"
        parts = [f"{number}: {self._why()}"]
        if self.kept:
            parts.append(f"{self.kept} of them keep a node for a while")
        if self.filled:
            parts.append(f"{self.filled} of them fill the last node")
        if self.spared:
            parts.append(f"{self.spared} fewer, as the same nodes have free slots for them")
        if self.limited_to is not None:
            parts.append(f"limited to {self.limited_to}")
        return "; ".join(parts)

    def _why(self) -> str:
        decisive = next((each for each in self.estimates if each.source is self.decided_by), None)
        if decisive is None or (not decisive.assured and decisive.source not in (Source.REACTIVE, Source.SEASONAL)):
            return f"{self.decided_by.value}"
        if decisive.assured or decisive.note:
            note = f" ({decisive.note})" if decisive.note else ""
            return f"{self.decided_by.value}{note}{', held' if self.is_held else ''}"
        if not (self.expected > 0 or self.deviation):
            return f"none expected within {self.lead} min"
        held = ", held" if self.is_held else ""
        return (
            f"{self.decided_by.value}{held}: about {self.expected:.1f} expected within {self.lead} min,"
            f" and a safety of {self.factor * self.deviation:.1f}"
        )


def forecast(record: DemandRecord, situation: GroupSituation, now: int) -> Forecast:
    """The number of placeholders to have ordered now, so that the launches of the coming lead time find them warm.

    It is the maximum of all estimators, and never less than pending and reserved servers, the calendar and the floor
    need. It rises at once, and falls when nothing within the time of the hold was higher.

    Parameters
    ----------
    record
        Has observed all minutes before `now`; the forecast is noted there, to be held and to be learned from.
    now
        The minute that begins.
    """
    settings = record.settings
    lead = max(whole_minutes(situation.lead), 1)
    reactive = reactive_estimate(record.recent, record.departing, lead)
    seasonal, recurring = _past_weeks(record, situation, now, lead)
    expected = max(reactive.expected, seasonal.expected)
    launches = max(reactive.launches, seasonal.launches)
    usual = None
    if record.counts.knows(now - min(record.examples(now)[0], default=now)):
        level = record.level * _holiday_share(record, now + lead)
        usual = seasonal.launches / (lead * level) if level else 0.0
    record.note(now, lead, launches, expected, usual)

    hold = round(settings.hold * lead) + 1
    held = record.held_expected.held(now, hold)
    deviation = spread(record.held_launches.held(now, hold), settings.burstiness)
    factor = record.calibration.factor
    # Safety for bursts must not want many times what ever came.
    uncertain = placeholders_for(held, deviation, factor)
    if uncertain > (bound := record.bound(now)):
        uncertain = int(bound)

    awaited = _awaited(record, situation, now, lead)
    # Until an entry begins, its target does not fall: what is ordered and deleted again helps nobody.
    record.held_usual.add(
        now, placeholders_for(reactive.expected, spread(reactive.launches, settings.burstiness), factor)
    )
    usual_need = int(record.held_usual.held(now, (record.windows.minutes_since_first(now) or 0) + 1))
    estimates = (
        reactive,
        seasonal,
        recurring,
        burst_estimate(record.burst.launches),
        calendar_estimate(awaited, usual_need),
        pending_estimate(situation.pending_spawns, situation.reserved),
        floor_estimate(situation.floor),
    )
    assured = max(estimates[2:], key=_assured)
    is_awaiting = any(each.opens <= now for each in awaited)
    if assured.assured > uncertain:
        found = Forecast(assured.assured, estimates, lead, held, deviation, factor, assured.source)
    else:
        source = Source.SEASONAL if seasonal.expected > reactive.expected else Source.REACTIVE
        found = Forecast(uncertain, estimates, lead, held, deviation, factor, source, is_held=held > expected)
    # What is above the floor: people who lower the floor want fewer placeholders now.
    record.held_total.add(now, situation.present + max(uncertain - situation.floor, 0))
    node_hold = round(settings.node_hold * lead)
    # Servers that end with their entry, or soon after it, do not come back.
    held_total = int(record.held_total.held(now, node_hold + 1)) - record.windows.users_of_ended(now, 2 * node_hold)
    found = _until_begin(record, _node_kept(found, situation, held_total + situation.floor), now)
    # What keeps a node serves launches, too, which need less safety then.
    kept = found.kept
    if (steady := record.steady.number(now, lead)) is not None:
        if assured.assured <= steady:
            found = Forecast(steady, estimates, lead, held, deviation, factor, Source.STEADY)
        else:
            found = replace(found, placeholders=assured.assured, kept=0)
    if record.windows.minutes_since_first(now) is None:
        # What is there already is deleted slowly: launches may take it.
        least = max(assured.assured, _at_once(launches / lead, settings), record.unused)
        found = _on_whole_nodes(found, settings, situation, least)
    record.unused = found.placeholders
    record.said(
        now,
        Statement(
            held + kept,
            deviation,
            assured.assured,
            uncertain + kept,
            steady,
            situation.present,
            situation.slots_per_node or 1,
        ),
        is_awaiting=is_awaiting,
    )
    return _limited(_filled(found, settings, situation), situation)


def usual_launches(record: DemandRecord, begin: int, minutes: int) -> float | None:
    """Launches within some minutes of the next days, by the same time of past weeks; None if no week is known.

    Parameters
    ----------
    begin
        The first minute.
    """
    found = _usual(record, begin, minutes)
    return found.launches if found is not None else None


def usual_growth(record: DemandRecord, begin: int, minutes: int) -> float | None:
    """Launches less departures, never negative, over the same time as `usual_launches`."""
    found = _usual(record, begin, minutes)
    return found.expected if found is not None else None


def _usual(record: DemandRecord, begin: int, minutes: int) -> Estimate | None:
    back, around = record.wall_clock.minutes_back(begin), whole_minutes(record.settings.around)
    if not any(record.counts.knows(begin - each - around) for each in back):
        return None
    level = record.level * _holiday_share(record, begin)
    return seasonal_estimate(record.counts, begin, back, minutes, around, level)


def calendar_only(record: DemandRecord, situation: GroupSituation, now: int) -> Forecast:
    """What the calendar and the floor want, with nothing learned from launches."""
    lead = max(whole_minutes(situation.lead), 1)
    estimates = (calendar_estimate(_awaited(record, situation, now, lead), 0), floor_estimate(situation.floor))
    decisive = max(estimates, key=_assured)
    found = Forecast(decisive.assured, estimates, lead, decided_by=decisive.source)
    return _limited(_filled(found, record.settings, situation), situation)


def _past_weeks(record: DemandRecord, situation: GroupSituation, now: int, lead: int) -> tuple[Estimate, Estimate]:
    settings = record.settings
    share = _holiday_share(record, now + lead)
    back, around = record.examples(now)
    seasonal = seasonal_estimate(record.counts, now, back, lead, around, record.level * share)
    margin = (1.0 + settings.recurring_margin) * share - 1.0
    recurring = recurring_estimate(record.counts, now, back, lead, around, margin, situation.starts_per_minute)
    return seasonal, recurring


def _awaited(record: DemandRecord, situation: GroupSituation, now: int, lead: int) -> tuple[AwaitedUsers, ...]:
    record.windows.keep(situation.occurrences, now)
    if not situation.occurrences:
        return ()
    rate = record.recent.mean

    def joined(since: int) -> float:
        return record.counts.arrivals(since, now) - rate * (now - since)

    margin = whole_minutes(record.settings.calendar_margin)
    starts = situation.starts_per_minute
    return awaited_users(situation.occurrences, now, lead, margin, starts, joined, situation.present, record.windows)


def users_to_come(record: DemandRecord, occurrences: Sequence[Occurrence]) -> dict[Occurrence, int]:
    """Users of entries that have begun who have not joined yet; entries without such users are left out."""
    now = record.counts.end
    found = _awaited(record.later(), GroupSituation(timedelta(0), occurrences=tuple(occurrences)), now, 1)
    return {each.occurrence: each.users for each in found if minute_of(each.occurrence.begins) <= now}


def _holiday_share(record: DemandRecord, minute: int) -> float:
    return record.settings.holiday_share if record.wall_clock.is_holiday(minute) else 1.0


def _node_kept(found: Forecast, situation: GroupSituation, held_total: int) -> Forecast:
    """A forecast that keeps the number of servers and placeholders together for a while.

    Servers come and go, and with them nodes would, when servers share them. Announced users are no part of that number.
    No more placeholders are kept than half a node has slots or, if that is more, than launches usually differ by: so
    few are kept after a class.
    """
    slots = situation.slots_per_node or 1
    if slots == 1:
        return found
    surplus = held_total - situation.present - found.placeholders
    kept = min(max(surplus, 0), max(slots // 2, round(found.deviation)))
    return replace(found, placeholders=found.placeholders + kept, kept=kept)


def _until_begin(record: DemandRecord, found: Forecast, now: int) -> Forecast:
    """A forecast that does not fall while the placeholders of an entry come: what is deleted then comes again."""
    since = record.windows.minutes_since_first(now)
    is_calendar = found.decided_by is Source.CALENDAR
    record.held_open.add(now, 0 if is_calendar else found.placeholders)
    if since is None:
        return found
    if is_calendar:
        found = replace(found, placeholders=found.placeholders - found.kept, kept=0)
    held = int(record.held_open.held(now, since + 2))
    return replace(found, placeholders=held, is_held=True) if held > found.placeholders else found


def _on_whole_nodes(found: Forecast, settings: DemandSettings, situation: GroupSituation, least: int) -> Forecast:
    """A forecast with as few placeholders as need the same nodes: what fits free slots of a node needs no placeholder.

    Parameters
    ----------
    least
        Placeholders that are wanted in any case.
    """
    free, slots = situation.free_slots, situation.slots_per_node
    if settings.fill_nodes or free is None or situation.pending_spawns or not slots:
        return found
    fewest = fewest_for_nodes(found.placeholders, free, slots)
    number = max(fewest, min(least, found.placeholders))
    return replace(found, placeholders=number, spared=found.placeholders - number)


def _at_once(rate: float, settings: DemandSettings) -> int:
    """Placeholders for the launches of one minute, at the wanted hit rate; meanwhile, what they take is replaced."""
    return ceil(rate + NormalDist().inv_cdf(settings.hit_rate) * spread(rate, settings.burstiness))


def _filled(found: Forecast, settings: DemandSettings, situation: GroupSituation) -> Forecast:
    if not settings.fill_nodes or not situation.slots_per_node or not found.placeholders:
        return found
    rest = whole_nodes(found.placeholders, situation.present, situation.slots_per_node).free_rest
    return replace(found, placeholders=found.placeholders + rest, filled=rest)


def _limited(found: Forecast, situation: GroupSituation) -> Forecast:
    if situation.most is None or found.placeholders <= situation.most:
        return found
    return replace(found, placeholders=situation.most, limited_to=situation.most)


def _assured(estimate: Estimate) -> int:
    return estimate.assured
