"""Overrides: targets of placeholders, pauses, nodes to drain, and whether anything is decided, set for a time.

What they order once is kept here until it is done, so that the next leader knows it, too. Calendar entries that they
add stay until they are deleted. All is stored in a ConfigMap, with an audit trail of the latest changes.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, TypeAlias

from dra_spawner.common.json_types import JsonObject
from dra_spawner.placeholders.planner.targets.choice_names import find_choice
from dra_spawner.placeholders.planner.targets.class_records import (
    MAX_REQUESTS,
    ClassRecords,
    EntryOwner,
    class_records_text,
)
from dra_spawner.placeholders.planner.targets.policy import DeletionOrder, Policy, ReplicaRange
from dra_spawner.simulator.model.claims import ObjectKey

#: Limit of settings at a time, so that the ConfigMap stays small.
MAX_OVERRIDES: Final = 200
#: Limit of calendar entries.
MAX_ENTRIES: Final = 1_000
#: Limit of orders that are not done yet.
MAX_ORDERS: Final = 100
#: Time after which an order that could not be carried out is dropped.
ORDER_LASTING: Final = timedelta(minutes=5)
#: Limit of entries in the audit trail; the oldest ones are dropped.
MAX_AUDITED: Final = 500
_LONGEST: Final = 1_000
#: Limits of the stored text: a ConfigMap holds 1 MiB.
_MAX_ENTRIES_TEXT: Final = 250_000
_MAX_CLASSES_TEXT: Final = 330_000


class OverrideKind(StrEnum):
    """What a setting is about; also its part of the API's address."""

    #: Other numbers of placeholders of a choice.
    PLACEHOLDERS = "placeholders"
    #: No placeholder of a choice is created or deleted for its target.
    PAUSED = "paused"
    #: A node is drained.
    DRAINING = "draining"
    #: A device is drained: it is given to no new server.
    DEVICES = "devices"
    #: Nothing is decided; its name is always `WHOLE_SERVICE`.
    OBSERVING = "observing"
    #: Forecasts are the targets, although the service is configured only to advise; its name is always `WHOLE_SERVICE`.
    ACTING = "acting"


#: Name of a setting about everything that the service does.
WHOLE_SERVICE: Final = "service"

OverrideKey: TypeAlias = tuple[OverrideKind, str]
"""Kind and name of a setting: the name of a choice, of a node, or of a device as ``driver/pool/device``."""


@dataclass(frozen=True, slots=True)
class Override:
    """One setting.

    Attributes
    ----------
    by
        Who set it, such as ``user ada``.
    until
        When it ends; None if it ends only by being deleted.
    reason
        Why, in the words of the person; may be empty.
    replicas
        Of the kind `OverrideKind.PLACEHOLDERS`.
    evict_at
        Of the kind `OverrideKind.DEVICES`: when servers that still have the device are ended; None for never.
    """

    kind: OverrideKind
    name: str
    by: str
    at: datetime
    until: datetime | None = None
    reason: str = ""
    replicas: ReplicaRange | None = None
    evict_at: datetime | None = None

    @property
    def key(self) -> OverrideKey:
        return self.kind, self.name

    def is_over(self, now: datetime) -> bool:
        """Whether it has ended."""
        return self.until is not None and self.until <= now

    @property
    def because(self) -> str:
        """Who set it, until when and why, as the end of a sentence."""
        until = f" until {self.until:%Y-%m-%d %H:%M %Z}" if self.until is not None else ""
        return f"set by {self.by}{until}" + (f": {self.reason}" if self.reason else "")


@dataclass(frozen=True, slots=True)
class StoredOrder:
    """An order to delete one placeholder.

    Attributes
    ----------
    key, uid
        Of the placeholder's pod.
    server
        Name of the pod whose reservation is to end; empty for an order to evict.
    by
        Who ordered it, such as ``user ada``.
    """

    key: ObjectKey
    uid: str
    server: str
    by: str
    at: datetime

    def is_over(self, now: datetime) -> bool:
        """Whether it is dropped, done or not."""
        return now - self.at >= ORDER_LASTING

    @property
    def order(self) -> DeletionOrder:
        """The same for decisions."""
        reason = f"{self.by} released its reservation" if self.server else f"{self.by} evicted it"
        return DeletionOrder(self.key, self.uid, self.server, reason)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A change that a person made.

    Attributes
    ----------
    change
        ``set``, ``deleted``, or the name of an operation.
    subject
        What it was about.
    details
        The setting, or the reason.
    """

    at: datetime
    by: str
    change: str
    subject: str
    details: str = ""


@dataclass(frozen=True, slots=True)
class Overrides:
    """All settings, orders that may not be done yet, and the audit trail with the newest entry last.

    Attributes
    ----------
    entries
        Calendar entries by id, as they were written; not checked.
    classes
        Who announced them, and requests for more.
    """

    settings: Mapping[OverrideKey, Override] = field(default_factory=dict)
    audit: tuple[AuditEntry, ...] = ()
    orders: tuple[StoredOrder, ...] = ()
    entries: Mapping[str, JsonObject] = field(default_factory=dict)
    classes: ClassRecords = field(default_factory=ClassRecords)

    def active(self, now: datetime) -> Overrides:
        """The same without settings and orders that have ended; the same object if none has."""
        classes = self.classes.active(now)
        if not (any(each.is_over(now) for each in self.settings.values()) or any(e.is_over(now) for e in self.orders)):
            return self if classes is self.classes else replace(self, classes=classes)
        return replace(
            self,
            classes=classes,
            settings={key: each for key, each in self.settings.items() if not each.is_over(now)},
            orders=tuple(each for each in self.orders if not each.is_over(now)),
        )

    def of_kind(self, kind: OverrideKind) -> dict[str, Override]:
        """Settings of a kind by name."""
        return {name: each for (found, name), each in sorted(self.settings.items()) if found is kind}

    def with_setting(self, setting: Override) -> Overrides:
        """The same with one more setting, in place of an earlier one."""
        return replace(self, settings={**self.settings, setting.key: setting}).audited(
            AuditEntry(setting.at, setting.by, "set", " ".join(setting.key), json.dumps(setting_json(setting)))
        )

    def without(self, key: OverrideKey, by: str, at: datetime) -> Overrides:
        """The same without a setting."""
        rest = {each: setting for each, setting in self.settings.items() if each != key}
        return replace(self, settings=rest).audited(AuditEntry(at, by, "deleted", " ".join(key)))

    def deleted_at(self, key: OverrideKey) -> datetime | None:
        """When a setting was last deleted, as far as the audit trail goes back; None if it was not."""
        found = (each.at for each in self.audit if each.change == "deleted" and each.subject == " ".join(key))
        return max(found, default=None)

    def with_order(self, order: StoredOrder) -> Overrides:
        """The same with one more order, in place of an earlier one about the same pod."""
        rest = tuple(each for each in self.orders if each.uid != order.uid)
        change = "release" if order.server else "evict"
        entry = AuditEntry(order.at, order.by, change, f"Pod {order.key}")
        return replace(self, orders=(*rest, order)).audited(entry)

    def without_orders(self, done: Collection[StoredOrder]) -> Overrides:
        """The same without orders that are done."""
        return replace(self, orders=tuple(each for each in self.orders if each not in done))

    def with_entry(self, name: str, written: JsonObject, by: str, at: datetime, group: str | None = None) -> Overrides:
        """The same with a calendar entry, in place of an earlier one with this id; its group stays for None."""
        known = self.classes.owners.get(name)
        group = (known.group if known is not None else "") if group is None else group
        classes = self.classes.with_entry(name, EntryOwner(by, at, group))
        return replace(self, entries={**self.entries, name: written}, classes=classes).audited(
            _about_entry(at, by, "set", name, written)
        )

    def without_entry(self, name: str, by: str, at: datetime) -> Overrides:
        """The same without a calendar entry."""
        rest = {each: written for each, written in self.entries.items() if each != name}
        written = self.entries.get(name, {})
        found = replace(self, entries=rest, classes=self.classes.without_entry(name))
        return found.audited(_about_entry(at, by, "deleted", name, written))

    @property
    def fits_storage(self) -> bool:
        """Whether calendar entries and requests are few and short enough to be stored."""
        return (
            len(self.entries) <= MAX_ENTRIES
            and len(self.classes.requests) <= MAX_REQUESTS
            and len(json.dumps(self.entries)) <= _MAX_ENTRIES_TEXT
            and len(class_records_text(self.classes)) <= _MAX_CLASSES_TEXT
        )

    def audited(self, entry: AuditEntry) -> Overrides:
        """The same with one more entry in the audit trail."""
        return replace(self, audit=(*self.audit, entry)[-MAX_AUDITED:])

    @property
    def closed(self) -> Mapping[OverrideKey, datetime | None]:
        """Nodes and devices that are drained, each with the end of that."""
        kinds = (OverrideKind.DRAINING, OverrideKind.DEVICES)
        return {key: each.until for key, each in self.settings.items() if each.kind in kinds}

    @property
    def acting(self) -> Override | None:
        """The order that forecasts are the targets; None without one."""
        return self.settings.get((OverrideKind.ACTING, WHOLE_SERVICE))

    @property
    def replicas(self) -> dict[str, ReplicaRange]:
        """Targets by name of the choice, without consents to a larger ``max``."""
        found = self.of_kind(OverrideKind.PLACEHOLDERS)
        return {name: each.replicas for name, each in found.items() if each.replicas is not None}

    def applied_to(self, policy: Policy, shape_of: Mapping[str, str]) -> Policy:
        """A policy with pauses, draining, observing and orders; targets are in `replicas`.

        Parameters
        ----------
        shape_of
            Id of the shape by name of the choice.
        """
        if not self.settings and not self.orders:
            return policy
        observing = next(iter(self.of_kind(OverrideKind.OBSERVING).values()), None)
        paused = (find_choice(name, shape_of) for name in self.of_kind(OverrideKind.PAUSED))
        return replace(
            policy,
            paused=frozenset(shape_of[name] for name in paused if name is not None),
            drained={name: each.because for name, each in self.of_kind(OverrideKind.DRAINING).items()},
            drained_until={name: until for (_, name), until in self.closed.items() if until is not None},
            orders=tuple(each.order for each in self.orders),
            observing_because=f"the service only observes, {observing.because}" if observing is not None else "",
        )


def _about_entry(at: datetime, by: str, change: str, name: str, written: JsonObject) -> AuditEntry:
    return AuditEntry(at, by, change, f"calendar-entry {name}", json.dumps(written)[:_LONGEST] if written else "")


def setting_json(setting: Override) -> JsonObject:
    """The setting as it is stored."""
    found: JsonObject = {"kind": setting.kind, "name": setting.name, "by": setting.by, "at": setting.at.isoformat()}
    if setting.until is not None:
        found["until"] = setting.until.isoformat()
    if setting.reason:
        found["reason"] = setting.reason
    if setting.replicas is not None:
        found |= {"min": setting.replicas.min, "max": setting.replicas.max}
    if setting.evict_at is not None:
        found["evict_at"] = setting.evict_at.isoformat()
    return found
