"""The account of VLANs: the owners of each VLAN, and pure changes of it.

The account maps a VLAN to its holders. A holder is one start of one server, on behalf of a user or a group (its
owner). All holders of a VLAN have the same owner, unless the administrator's mapping gives one VLAN to several. A VLAN
without holders is free. A holder without a server is an entry that an administrator wrote: it is never taken away, and
its owner gets this VLAN.

Whoever keeps the account writes it by compare-and-swap only: of two that decide on the same state, one has to decide
again. A newer release may add fields of holders, which older ones keep as they are. A name that is almost that of a
known field counts as a mistake of an administrator.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from dra_spawner.profiles.compiler.vlan_policy import OwnerKind, VlanPolicy
from dra_spawner.profiles.syntax.problems import shown
from dra_spawner.profiles.syntax.templates import MAX_VLAN, MIN_VLAN

#: By how much the clocks of two hubs may differ.
CLOCK_SKEW = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Holder:
    """One start of a server that uses a VLAN.

    Attributes
    ----------
    owner
        On whose behalf: ``user:…`` or ``group:…``.
    server
        ``namespace/name`` of the server's pod; empty in an entry that an administrator wrote.
    start
        What tells this start from earlier ones of the same server.
    until
        Until when the pod may not exist yet; ``None`` is long ago.
    note
        An administrator's remark.
    more
        Fields of a newer release, in JSON; empty if there are none.
    """

    owner: str
    server: str = ""
    start: str = ""
    until: datetime | None = None
    note: str = ""
    more: str = ""


#: VLAN -> its leases.
Leases = Mapping[int, tuple[Holder, ...]]


@dataclass(frozen=True, slots=True)
class VlanPod:
    """A pod that exists and is marked as one in a VLAN; as `Holder`.

    Attributes
    ----------
    is_own
        Whether it is in a namespace of the hub's servers. Anybody may mark a pod elsewhere.
    """

    vlan: int
    owner: str
    server: str
    start: str
    is_own: bool = True

    def is_of(self, vlan: int, holder: Holder) -> bool:
        """Whether it is the pod of this holder's start."""
        return (self.vlan, self.server, self.start) == (vlan, holder.server, holder.start)


class VlanRefusal(StrEnum):
    """Reason for a refused VLAN."""

    NO_GROUP = "in none of the groups"
    NOT_MAPPED = "none set up"
    BUSY = "set aside, but in use by others"
    EXHAUSTED = "all in use"


@dataclass(frozen=True, slots=True)
class VlanRefused:
    """No VLAN, and a sentence for the user."""

    reason: VlanRefusal
    sentence: str


@dataclass(frozen=True, slots=True)
class VlanAssignment:
    vlan: int
    leases: Leases


class LeasesCorrupt(ValueError):
    """Raised where the account cannot be read; it must not be overwritten."""


# Who it is for


def vlan_owner(policy: VlanPolicy, user: str, groups: Collection[str]) -> str | VlanRefused:
    """The owner (user or group) of a user's VLAN, or the reason for none."""
    if policy.by is OwnerKind.USER:
        name = user
    else:
        group = policy.group_of(groups)
        if group is None:
            whom = f"members of {_one_of(policy.groups)}"
            return VlanRefused(VlanRefusal.NO_GROUP, f"This choice is for {whom}; you are not a member.")
        name = group
    if name not in policy.mapping and not policy.allocates:
        whom = "you" if policy.by is OwnerKind.USER else f"group {name}"
        return VlanRefused(VlanRefusal.NOT_MAPPED, f"No VLAN is set up for {whom}. An administrator can do that.")
    return name


def _one_of(names: tuple[str, ...]) -> str:
    if len(names) == 1:
        return f"group {names[0]}"
    return f"groups {', '.join(names[:-1])} or {names[-1]}"


# Taking and giving back


def assign(
    leases: Leases, policy: VlanPolicy, name: str, server: str, start: str, until: datetime
) -> VlanAssignment | VlanRefused:
    """A VLAN for a start.

    In this order: what the start has already (so that it may ask again); what the mapping says; what an administrator
    wrote into the account; what the owner has already, as far as the policy still allows it; a free one. The search for
    a free one begins at a place that the owner's name decides, so that owners mostly get the same one again.

    Parameters
    ----------
    name
        Of the user or group, as `vlan_owner` found it.
    server, start, until
        As in `Holder`.
    """  # fmt: skip
    owner = policy.owner(name)
    holder = Holder(owner, server, start, until)
    mapped = policy.mapping.get(name)
    if mapped is not None:
        # The mapping may give one VLAN to several owners; no other owner may use it.
        allowed = {policy.owner(each) for each, entry in policy.mapping.items() if entry.vlan == mapped.vlan}
        if not all(each.owner in allowed for each in leases.get(mapped.vlan, ())):
            sentence = (
                f"VLAN {mapped.vlan}, which is set aside for you, is still in use by others. Please try again later."
            )
            return VlanRefused(VlanRefusal.BUSY, sentence)
        return VlanAssignment(mapped.vlan, _with(leases, mapped.vlan, holder))
    held = _of_owner(leases, owner)
    mine = [vlan for vlan, each in held if (each.server, each.start) == (server, start)]
    # A VLAN with other owners (by hand, or by an earlier mapping) gets no new one.
    pinned = [
        vlan
        for vlan, each in held
        if not each.server and all(one.owner == owner or not one.server for one in leases[vlan])
    ]
    former = [vlan for vlan, _ in held if vlan in policy.vlans and all(one.owner == owner for one in leases[vlan])]
    vlan = next(iter((*mine, *pinned, *former)), None)
    if vlan is None:
        vlan = _free(leases, policy.vlans, owner)
    if vlan is None:
        return VlanRefused(VlanRefusal.EXHAUSTED, _exhausted(policy.vlans))
    return VlanAssignment(vlan, _with(leases, vlan, holder))


def release(leases: Leases, server: str, start: str, pods: Collection[VlanPod]) -> Leases:
    """The account without a server's start; it stays if it has a pod."""

    def goes(vlan: int, holder: Holder) -> bool:
        of_it = (holder.server, holder.start) == (server, start)
        return of_it and not any(pod.is_of(vlan, holder) for pod in pods)

    return _without(leases, goes) if server else leases


def reconcile(leases: Leases, pods: Collection[VlanPod], now: datetime) -> Leases:
    """The account as the pods show that it should be.

    Starts that are over and have no pod go, as those of a hub that was killed. The hub's own pods that have no entry,
    because it or the whole account was removed, get one.
    """

    def goes(vlan: int, holder: Holder) -> bool:
        under_way = holder.until is not None and now - CLOCK_SKEW <= holder.until
        return bool(holder.server) and not under_way and not any(pod.is_of(vlan, holder) for pod in pods)

    kept = _without(leases, goes)
    for pod in pods:
        if pod.is_own and not any(pod.is_of(pod.vlan, holder) for holder in kept.get(pod.vlan, ())):
            kept = _with(kept, pod.vlan, Holder(pod.owner, pod.server, pod.start))
    return kept


def contested(leases: Leases, before: Leases) -> tuple[int, ...]:
    """VLANs that newly have several owners, which only a manual change of the account can cause."""
    return tuple(
        vlan
        for vlan, holders in sorted(leases.items())
        if len({each.owner for each in holders}) > max(1, len({each.owner for each in before.get(vlan, ())}))
    )


def _of_owner(leases: Leases, owner: str) -> list[tuple[int, Holder]]:
    return [(vlan, each) for vlan, holders in sorted(leases.items()) for each in holders if each.owner == owner]


def _with(leases: Leases, vlan: int, holder: Holder) -> Leases:
    """The account with a holder, in place of an earlier entry of the same start."""
    same: list[Holder] = []
    others: list[Holder] = []
    for each in leases.get(vlan, ()):
        is_same = bool(each.server) and (each.server, each.start) == (holder.server, holder.start)
        (same if is_same else others).append(each)
    more = same[0].more if same else ""
    return {**leases, vlan: (*others, replace(holder, more=more))}


def _without(leases: Leases, goes: Callable[[int, Holder], bool]) -> Leases:
    kept = {vlan: tuple(each for each in holders if not goes(vlan, each)) for vlan, holders in leases.items()}
    return {vlan: holders for vlan, holders in kept.items() if holders}


def _free(leases: Leases, vlans: tuple[int, ...], owner: str) -> int | None:
    if not vlans:
        return None
    first = int.from_bytes(hashlib.sha256(owner.encode("utf-8", "surrogatepass")).digest()[:8]) % len(vlans)
    return next((vlan for vlan in (*vlans[first:], *vlans[:first]) if vlan not in leases), None)


def _exhausted(vlans: tuple[int, ...]) -> str:
    count = "The only VLAN is" if len(vlans) == 1 else f"All {len(vlans)} VLANs are"
    return f"{count} in use. Please try again when another server has stopped."


# As it is kept: VLAN -> JSON


_FIELDS = ("owner", "server", "start", "until", "note")
_ALMOST = 0.8
"""Likeness from which on a name is a mistake: of "sever" and "server", not of "zone" and "owner"."""


def leases_from_data(data: object) -> Leases:
    """Read the account from a ConfigMap's ``data``.

    Raises
    ------
    LeasesCorrupt
        If anything in it is not as `leases_data` writes it.
    """
    if data is None:
        return {}
    if not isinstance(data, Mapping):
        raise LeasesCorrupt(f"data is {shown(data)} instead of a mapping")
    return dict(_entries(data))


def leases_data(leases: Leases) -> dict[str, str]:
    """The account as a ConfigMap's ``data``: a key for each VLAN, the rest in JSON."""
    return {
        str(vlan): json.dumps([_holder_json(holder) for holder in holders], ensure_ascii=True)
        for vlan, holders in sorted(leases.items())
    }


def _entries(data: Mapping[object, object]) -> Iterator[tuple[int, tuple[Holder, ...]]]:
    for key, text in data.items():
        if not isinstance(key, str) or not key.isascii() or not key.isdigit() or key != str(int(key)):
            raise LeasesCorrupt(f"{shown(key)} is no VLAN's number")
        if not MIN_VLAN <= int(key) <= MAX_VLAN:
            raise LeasesCorrupt(f"{key} is no VLAN from {MIN_VLAN} to {MAX_VLAN}")
        try:
            holders = json.loads(text) if isinstance(text, str) else None
        except (ValueError, RecursionError) as error:
            raise LeasesCorrupt(f"VLAN {key}: no JSON ({error})") from error
        if not isinstance(holders, list) or not holders:
            raise LeasesCorrupt(f"VLAN {key}: {shown(text)} is no list of its users")
        yield int(key), tuple(_holder(key, holder) for holder in holders)


def _holder(key: str, value: object) -> Holder:
    if not isinstance(value, dict):
        raise LeasesCorrupt(f"VLAN {key}: {shown(value)} is no mapping of {', '.join(_FIELDS)}")
    from difflib import get_close_matches  # imported here: few hubs assign VLANs

    newer = {name: each for name, each in value.items() if name not in _FIELDS}
    for name in newer:
        if meant := get_close_matches(name.lower(), _FIELDS, 1, _ALMOST):
            raise LeasesCorrupt(f"VLAN {key}: {shown(value)} has {shown(name)} instead of {meant[0]}")
    texts = [value.get(name, "") for name in _FIELDS]
    if not all(isinstance(text, str) for text in texts) or not value.get("owner"):
        raise LeasesCorrupt(f"VLAN {key}: {shown(value)} has no owner, or something else than text")
    until = None
    if value.get("until"):
        try:
            written = datetime.fromisoformat(value["until"])
            until = written.astimezone(UTC) if written.tzinfo else None
        except (ValueError, OverflowError) as error:
            raise LeasesCorrupt(f"VLAN {key}: {shown(value['until'])} is no time") from error
        if until is None:
            raise LeasesCorrupt(f"VLAN {key}: {shown(value['until'])} is a time without its zone")
    owner, server, start, _, note = texts
    return Holder(owner, server, start, until, note, json.dumps(newer) if newer else "")


def _holder_json(holder: Holder) -> dict[str, object]:
    until = holder.until.isoformat(timespec="seconds") if holder.until else ""
    fields = {
        "owner": holder.owner,
        "server": holder.server,
        "start": holder.start,
        "until": until,
        "note": holder.note,
    }
    newer: dict[str, object] = json.loads(holder.more) if holder.more else {}
    return newer | {name: value for name, value in fields.items() if value}
