"""Which VLAN a user or a group may have: the spawner's ``vlans``, parsed and validated."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from dra_spawner.profiles.syntax import rules, templates
from dra_spawner.profiles.syntax.keys import Key, Keys, schema_of_keys
from dra_spawner.profiles.syntax.reading import ValueReader
from dra_spawner.profiles.syntax.templates import MAX_VLAN, MIN_VLAN


class OwnerKind(StrEnum):
    """What has a VLAN of its own."""

    USER = "user"
    GROUP = "group"


@dataclass(frozen=True, slots=True)
class MappedVlan:
    """A VLAN that the administrator has set aside for one user or group.

    Attributes
    ----------
    values
        What goes with it: variables such as ``address`` and their values.
    """

    vlan: int
    values: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class VlanPolicy:
    """Assignment of VLANs to users or groups.

    Attributes
    ----------
    by
        Whether each user has one, or each group.
    mapping
        Name of a user or group -> the VLAN set aside for it.
    vlans
        VLANs for owners outside of the mapping, ascending; without those of the mapping.
    groups
        Groups that may have one, the first that a user is in counts; with ``by`` group only.
    """

    by: OwnerKind
    mapping: Mapping[str, MappedVlan]
    vlans: tuple[int, ...] = ()
    groups: tuple[str, ...] = ()

    @property
    def allocates(self) -> bool:
        """Whether VLANs are leased, so that an account is needed."""
        return bool(self.vlans)

    def group_of(self, member_of: Collection[str]) -> str | None:
        """The group whose VLAN a member of these groups gets; ``None`` if no group has one."""
        return next((group for group in self.groups if group in member_of), None)

    def owner(self, name: str) -> str:
        """Name of a user or group as the account of VLANs has it."""
        return f"{self.by}:{name}"


#: Maximum of entries of a mapping or list: the number of VLANs.
_MAX = MAX_VLAN
_GROUP_OR_USER = {"type": "string", "minLength": 1}
_ID = {"type": "integer", "minimum": MIN_VLAN, "maximum": MAX_VLAN}
_RANGE_PATTERN = r"[0-9]{1,4}(?: ?- ?[0-9]{1,4})?(?: ?, ?[0-9]{1,4}(?: ?- ?[0-9]{1,4})?)*"
_RANGE_TEXT = rules.text("", _RANGE_PATTERN, 4096)
_RANGE_SCHEMA = {
    "anyOf": [_ID, dict(_RANGE_TEXT.schema), {"type": "array", "items": {"anyOf": [_ID, dict(_RANGE_TEXT.schema)]}}]
}
_RANGE = f"VLANs from {MIN_VLAN} to {MAX_VLAN} such as 100-199, or a list of such"

#: What may go with a VLAN in the mapping.
_VALUE_RULES = {"address": templates.ADDRESS, "subnet": templates.SUBNET, "gateway": templates.GATEWAY}

MAPPED_KEYS: Keys = {
    "id": Key("The VLAN's number.", _ID, required=True),
    **{name: Key(f"For {{{name}}}: {rule.allowed}.", rule.schema) for name, rule in _VALUE_RULES.items()},
}
VLANS_KEYS: Keys = {
    "by": Key("Whether each user has a VLAN (default), or each group.", {"enum": [*OwnerKind]}),
    "mapping": Key(
        "User or group -> VLAN, a number or {id, address, subnet, gateway}.",
        {"type": "object", "additionalProperties": {"anyOf": [_ID, schema_of_keys(MAPPED_KEYS), {"type": "null"}]}},
    ),
    "range": Key("VLANs for whoever is not in the mapping.", _RANGE_SCHEMA),
    "exclude": Key("VLANs of the range that are never given.", _RANGE_SCHEMA),
    "groups": Key(
        "With by: group, groups that may have a VLAN, in order of preference; left out: those of the mapping.",
        {"type": "array", "items": _GROUP_OR_USER},
    ),
}


def vlans_schema() -> dict[str, Any]:
    """JSON Schema of ``vlans``; where it cannot say all, it allows more."""
    return schema_of_keys(VLANS_KEYS)


def parse_vlan_policy(value: object, path: str = "vlans") -> VlanPolicy | None:
    """Parse and validate ``vlans``; ``None`` if nothing is set.

    Raises
    ------
    ProfileError
        With every problem found.
    """
    if value is None or value == {}:
        return None
    reader = _PolicyReader()
    return reader.accepted(reader.policy(value, path))


class _PolicyReader(ValueReader):
    def policy(self, value: object, path: str) -> VlanPolicy | None:
        entry = self.keyed(value, path, VLANS_KEYS, "keys of vlans", "a mapping such as {by: user, range: 100-199}")
        if entry is None:
            return None
        by = entry.get("by", OwnerKind.USER)
        if not isinstance(by, str) or by not in list(OwnerKind):
            self.refuse(f"{path}.by", by, " or ".join(OwnerKind))
            by = OwnerKind.USER
        mapping = self._mapping(entry.get("mapping"), f"{path}.mapping")
        mapped = {each.vlan for each in mapping.values()}
        excluded = mapped | self._vlans(entry.get("exclude"), f"{path}.exclude")
        vlans = tuple(sorted(self._vlans(entry.get("range"), f"{path}.range") - excluded))
        if not self.problems and entry.get("range") is not None and not vlans:
            self.refuse(f"{path}.range", entry["range"], "a VLAN at least that is neither excluded nor in the mapping")
        if not self.problems and not mapping and not vlans:
            self.missing(path, "mapping or range, or both")
        groups = self._groups(entry.get("groups"), f"{path}.groups", OwnerKind(by), mapping, vlans)
        return VlanPolicy(OwnerKind(by), mapping, vlans, groups)

    def _mapping(self, value: object, path: str) -> dict[str, MappedVlan]:
        if value is None:
            return {}
        entries = self.mapping(value, path, "a mapping of a user or group to a VLAN, such as {ada: 42}") or {}
        mapping = {}
        for name, entry in entries.items():
            if entry is None:
                continue  # as KubeSpawner takes a key away where profiles are merged
            found = self._mapped(entry, f"{path}.{name}")
            if found is not None:
                mapping[name] = found
        return mapping

    def _mapped(self, value: object, path: str) -> MappedVlan | None:
        if not isinstance(value, Mapping):
            return MappedVlan(value) if self.follows(templates.VLAN, value, path) and isinstance(value, int) else None
        entry = self.keyed(value, path, MAPPED_KEYS, "keys of a VLAN", "a VLAN, or a mapping with at least id")
        if entry is None or not self.follows(templates.VLAN, entry.get("id"), f"{path}.id"):
            return None
        values = [
            (name, str(entry[name]))
            for name, rule in _VALUE_RULES.items()
            if entry.get(name) is not None and self.follows(rule, entry[name], f"{path}.{name}")
        ]
        assert isinstance(entry["id"], int)
        return MappedVlan(entry["id"], tuple(values))

    def _vlans(self, value: object, path: str) -> set[int]:
        """VLANs of a number, of text such as ``100-199, 300``, or of a list of either."""
        if value is None:
            return set()
        if isinstance(value, list | tuple):
            found: set[int] = set()
            for index, entry in enumerate(value):
                if isinstance(entry, list | tuple):
                    self.refuse(f"{path}[{index}]", entry, _RANGE)
                else:
                    found |= self._vlans(entry, f"{path}[{index}]")
            return found
        if templates.VLAN.accepts(value) and isinstance(value, int):
            return {value}
        if not _RANGE_TEXT.accepts(value) or not isinstance(value, str):
            self.refuse(path, value, _RANGE)
            return set()
        found = set()
        for part in value.split(","):
            first, _, last = part.partition("-")
            low, high = int(first), int(last or first)
            if not MIN_VLAN <= low <= high <= MAX_VLAN:
                self.refuse(path, part.strip(), _RANGE)
            else:
                found |= set(range(low, high + 1))
        return found

    def _groups(
        self, value: object, path: str, by: OwnerKind, mapping: Mapping[str, MappedVlan], vlans: tuple[int, ...]
    ) -> tuple[str, ...]:
        if by is OwnerKind.USER:
            if value is not None:
                self.refuse(path, value, "groups with by: group only")
            return ()
        if value is None:
            if not mapping:
                self.missing(path, "a list of the groups that may have a VLAN")
            return tuple(mapping)

        def group(name: object, where: str) -> str | None:
            if not isinstance(name, str) or not name:
                self.refuse(where, name, "the name of a group of this hub")
                return None
            if name not in mapping and not vlans:
                self.refuse(where, name, "a group that has a VLAN in the mapping, as there is no range")
            return name

        groups = self.listed(value, path, "names of groups", _MAX, group)
        if isinstance(value, list | tuple) and not value:
            self.missing(path, "at least one group")
        return tuple(dict.fromkeys(groups))
