"""What is stored of classes beside their calendar entries: owners, requests, consents, and what came of each.

An invalid part is left out, as another writer may have written it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from dra_spawner.common.json_types import JsonObject
from dra_spawner.common.kept_json import moment_in, read_json, text_in
from dra_spawner.placeholders.planner.targets.choice_names import find_choice
from dra_spawner.placeholders.planner.targets.policy import MAX_PLACEHOLDERS, ReplicaRange

#: Limit of stored requests, answered ones included.
MAX_REQUESTS: Final = 200
_MAX_ENTRIES: Final = 1_000
_MAX_OUTCOMES: Final = 300
#: Limit of their stored text, so that long verdicts leave room for owners and requests.
_MAX_OUTCOMES_TEXT: Final = 180_000
_MAX_NOTICES: Final = 100
_MAX_NOTICES_OF_ONE: Final = 20
_LONGEST: Final = 1_000
#: Limit of a stored verdict.
_LONGEST_VERDICT: Final = 400
_MAX_SERVERS: Final = 10**6
#: Time for which answered requests, and what came of classes, are kept.
_KEPT: Final = timedelta(days=14)
#: Time after which a request without an answer is dropped.
_OPEN_KEPT: Final = timedelta(days=90)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EntryOwner:
    """Who announced a calendar entry.

    Attributes
    ----------
    by
        Kind and name at the hub, such as ``user ada``.
    group
        The group for which it is, in the words of the person; may be empty.
    """

    by: str
    at: datetime
    group: str = ""


@dataclass(frozen=True, slots=True)
class ClassRequest:
    """A class that somebody asks for.

    Attributes
    ----------
    written
        The calendar entry, as it is written in the setting ``calendar_entries``; not checked.
    declined_by, declined_at, because
        The administrator's answer, with a sentence; an approved request becomes an entry.
    """

    written: JsonObject
    by: str
    at: datetime
    group: str = ""
    declined_by: str = ""
    declined_at: datetime | None = None
    because: str = ""

    @property
    def is_open(self) -> bool:
        """Whether it has no answer yet."""
        return self.declined_at is None

    def is_over(self, now: datetime) -> bool:
        """Whether it is kept no longer."""
        return now - (self.declined_at or self.at) >= (_OPEN_KEPT if self.is_open else _KEPT)


@dataclass(frozen=True, slots=True)
class RaisedMax:
    """An administrator's consent that a choice has more placeholders than configured, until a class is over.

    Attributes
    ----------
    max
        Counts instead of the configured ``max`` if it is larger.
    """

    choice: str
    max: int
    until: datetime
    by: str


@dataclass(frozen=True, slots=True)
class ClassNotice:
    """A time that was announced and does not take place then.

    Attributes
    ----------
    name, group, owner
        Title of the class, the group for which it was, and who announced it.
    by
        Who changed or cancelled it.
    begins
        When it would have begun; the notice is kept until then.
    time, instead
        This time, and the next one, as people read them; the latter is empty for a class that is cancelled.
    """

    name: str
    group: str
    owner: str
    by: str
    begins: datetime
    time: str
    instead: str = ""


@dataclass(frozen=True, slots=True)
class ClassOutcome:
    """What is known of one time of a class.

    Attributes
    ----------
    begins
        Its begin.
    verdict, is_possible, rehearsed_at
        The last verdict, and when it was found; empty and None before the first.
    turned_at
        When the verdict turned from Yes to another; None while it is Yes.
    is_told
        Whether the message about that was sent.
    prepared, ready_at
        Warm placeholders for its users before its begin, and since when there are enough.
    came, longest_seconds
        Servers that got a node since users may come, and their longest wait.
    counted_until
        When they were counted last; None if they never were.
    is_partial
        Whether no replica counted for some time.
    """

    begins: datetime
    verdict: str = ""
    is_possible: bool = False
    rehearsed_at: datetime | None = None
    turned_at: datetime | None = None
    is_told: bool = False
    prepared: int = 0
    ready_at: datetime | None = None
    came: int = 0
    longest_seconds: float = 0.0
    counted_until: datetime | None = None
    is_partial: bool = False

    def rehearsed(self, verdict: str, at: datetime, *, is_possible: bool) -> ClassOutcome:
        """The same after a rehearsal. A verdict that is not Yes is told again only after it was Yes."""
        is_same_no = self.turned_at is not None and not is_possible
        return replace(
            self,
            verdict=verdict[:_LONGEST_VERDICT],
            is_possible=is_possible,
            rehearsed_at=at,
            turned_at=None if is_possible else self.turned_at or at,
            is_told=self.is_told and is_same_no,
        )


@dataclass(frozen=True, slots=True)
class ClassRecords:
    """See the module.

    Attributes
    ----------
    owners, raised
        By id of the calendar entry.
    requests
        By their own id, which an entry gets that is made of the request.
    outcomes
        By `outcome_key` of the time of a class.
    notices
        By id of the calendar entry, which may be deleted.
    """

    owners: Mapping[str, EntryOwner] = field(default_factory=dict)
    requests: Mapping[str, ClassRequest] = field(default_factory=dict)
    raised: Mapping[str, RaisedMax] = field(default_factory=dict)
    outcomes: Mapping[str, ClassOutcome] = field(default_factory=dict)
    notices: Mapping[str, ClassNotice] = field(default_factory=dict)

    def active(self, now: datetime) -> ClassRecords:
        """The same without what is over; the same object if nothing is."""
        raised = {name: each for name, each in self.raised.items() if each.until > now}
        requests = {name: each for name, each in self.requests.items() if not each.is_over(now)}
        outcomes = {name: each for name, each in self.outcomes.items() if now - each.begins < _KEPT}
        notices = {name: each for name, each in self.notices.items() if each.begins > now}
        sizes = len(raised), len(requests), len(outcomes), len(notices)
        if sizes == (len(self.raised), len(self.requests), len(self.outcomes), len(self.notices)):
            return self
        return replace(self, raised=raised, requests=requests, outcomes=outcomes, notices=notices)

    def with_entry(self, name: str, owner: EntryOwner) -> ClassRecords:
        """The same with the owner of an entry. The first owner stays; the group is that of the last change."""
        known = self.owners.get(name)
        owner = replace(known, group=owner.group) if known is not None else owner
        return replace(self, owners={**self.owners, name: owner})

    def without_entry(self, name: str) -> ClassRecords:
        """The same without what is kept of an entry."""
        return replace(self, owners=_without(self.owners, name), raised=_without(self.raised, name))

    def with_request(self, name: str, request: ClassRequest) -> ClassRecords:
        """The same with a request, in place of an earlier one with this id."""
        return replace(self, requests={**self.requests, name: request})

    def without_request(self, name: str) -> ClassRecords:
        """The same without a request."""
        return replace(self, requests=_without(self.requests, name))

    def with_raised(self, name: str, raised: RaisedMax | None) -> ClassRecords:
        """The same with the consent for an entry; without one for None."""
        rest = _without(self.raised, name)
        return replace(self, raised={**rest, name: raised} if raised is not None else rest)

    def with_outcomes(self, found: Mapping[str, ClassOutcome]) -> ClassRecords:
        """The same with newer outcomes; of too many, those that begin the latest stay."""
        known = self.outcomes
        told = {
            key: replace(each, is_told=True)
            for key, each in found.items()
            if key in known and known[key].is_told and known[key].turned_at == each.turned_at
        }
        merged = sorted({**known, **found, **told}.items(), key=lambda each: each[1].begins)[-_MAX_OUTCOMES:]
        left, first = _MAX_OUTCOMES_TEXT, len(merged)
        for key, each in reversed(merged):
            left -= len(json.dumps({key: _json(each)}))
            if left < 0:
                break
            first -= 1
        return replace(self, outcomes=dict(merged[first:]))

    def with_notice(self, name: str, notice: ClassNotice) -> ClassRecords:
        """The same with a notice about an entry, in place of an earlier one; of too many, the last stay."""
        found = {**_without(self.notices, name), name: notice}
        of_one = [key for key, each in found.items() if each.owner == notice.owner]
        for key in of_one[:-_MAX_NOTICES_OF_ONE]:
            del found[key]
        return replace(self, notices=dict([*found.items()][-_MAX_NOTICES:]))

    def told(self, keys: Iterable[str]) -> ClassRecords:
        """The same after messages about verdicts that turned to No were sent."""
        told = {key: replace(self.outcomes[key], is_told=True) for key in keys if key in self.outcomes}
        return replace(self, outcomes={**self.outcomes, **told})

    def applied_to(self, numbers: Mapping[str, ReplicaRange]) -> dict[str, ReplicaRange]:
        """Numbers of placeholders by choice, with the ``max`` to which administrators have consented."""
        found = dict(numbers)
        for each in self.raised.values():
            name = find_choice(each.choice, found) or each.choice
            known = found.get(name, ReplicaRange(0, 0))
            found[name] = replace(known, max=max(known.max, each.max))
        return found


def _without(found: Mapping[str, T], name: str) -> dict[str, T]:
    return {key: each for key, each in found.items() if key != name}


def class_records_text(records: ClassRecords) -> str:
    """The stored text."""
    parts = {name: getattr(records, name) for name in ("owners", "requests", "raised", "outcomes", "notices")}
    return json.dumps(
        {name: {key: _json(each) for key, each in found.items()} for name, found in parts.items()},
        separators=(",", ":"),
    )


def read_class_records(text: object) -> ClassRecords:
    """The records in a stored text; empty if it is none."""
    found = read_json(text)
    parts = found if isinstance(found, dict) else {}
    return ClassRecords(
        _read(parts.get("owners"), _read_owner, _MAX_ENTRIES),
        _read(parts.get("requests"), _read_request, MAX_REQUESTS),
        _read(parts.get("raised"), _read_raised, _MAX_ENTRIES),
        _read(parts.get("outcomes"), _read_outcome, _MAX_OUTCOMES),
        _read(parts.get("notices"), _read_notice, _MAX_NOTICES),
    )


def _json(record: Any) -> JsonObject:
    """A record without members that are empty."""
    found = {key: each.isoformat() if isinstance(each, datetime) else each for key, each in asdict(record).items()}
    return {key: each for key, each in found.items() if each not in (None, "", 0, False)}


def _read(found: object, read: Callable[[Any], T], most: int) -> dict[str, T]:
    if not isinstance(found, dict):
        return {}
    return dict(_readable(((str(key), each) for key, each in [*found.items()][:most]), read))


def _readable(found: Iterable[tuple[str, Any]], read: Callable[[Any], T]) -> Iterable[tuple[str, T]]:
    for key, each in found:
        try:
            yield key, read(each)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            continue


def _read_owner(found: Any) -> EntryOwner:
    return EntryOwner(_text(found["by"]), moment_in(found["at"]), _text(found.get("group", "")))


def _read_request(found: Any) -> ClassRequest:
    if not isinstance(found["written"], dict):
        raise TypeError(found)
    by, group, declined_by, because = (_text(found.get(key, "")) for key in ("by", "group", "declined_by", "because"))
    return ClassRequest(
        found["written"],
        by,
        moment_in(found["at"]),
        group,
        declined_by,
        _optional_moment(found, "declined_at"),
        because,
    )


def _read_raised(found: Any) -> RaisedMax:
    most = _number(found["max"], MAX_PLACEHOLDERS)
    return RaisedMax(_text(found["choice"]), int(most), moment_in(found["until"]), _text(found["by"]))


def _read_outcome(found: Any) -> ClassOutcome:
    return ClassOutcome(
        moment_in(found["begins"]),
        _text(found.get("verdict", "")),
        found.get("is_possible") is True,
        _optional_moment(found, "rehearsed_at"),
        _optional_moment(found, "turned_at"),
        found.get("is_told") is True,
        int(_number(found.get("prepared", 0), MAX_PLACEHOLDERS)),
        _optional_moment(found, "ready_at"),
        int(_number(found.get("came", 0), _MAX_SERVERS)),
        float(_number(found.get("longest_seconds", 0.0), 1e9)),
        _optional_moment(found, "counted_until"),
        found.get("is_partial") is True,
    )


def _read_notice(found: Any) -> ClassNotice:
    name, group, owner, by, instead = (_text(found.get(key, "")) for key in ("name", "group", "owner", "by", "instead"))
    return ClassNotice(name, group, owner, by, moment_in(found["begins"]), _text(found["time"]), instead)


def _number(found: object, most: float) -> float:
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= most:
        raise ValueError(found)
    return found


def _text(found: object) -> str:
    return text_in(found, _LONGEST)


def _optional_moment(found: Any, key: str) -> datetime | None:
    return moment_in(found[key]) if key in found else None
