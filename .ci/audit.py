"""Compare what is locked, and what pyproject.toml lets in, with the advisories that were looked up by hand.

The audit works offline and asks no database of advisories. It also lists packages that were not looked up, and says how
old the other look-ups are. It ends with 1 if a known advisory applies.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
ADVISORIES = ROOT / ".ci" / "advisories.toml"
LOCK = ROOT / "requirements" / "service.lock"
PYPROJECT = ROOT / "pyproject.toml"
#: What was looked up longer ago is a warning.
MAX_DAYS = 90
_LOCKED = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)", re.MULTILINE)
_KEYS = {"looked_up", "advisories", "accepted", "not_found"}
_ADVISORY_KEYS = {"id", "affected", "what"}
_ACCEPTED_KEYS = {"ids", "because"}


class AdvisoriesError(Exception):
    """The file of advisories makes no sense; the message says where."""


@dataclass(frozen=True)
class Advisory:
    """What is known against versions of a package: any of ``affected`` is enough."""

    id: str
    affected: tuple[SpecifierSet, ...]
    what: str

    def meets(self, version: Version) -> bool:
        return any(each.contains(version, prereleases=True) for each in self.affected)


@dataclass(frozen=True)
class Known:
    """What was looked up about one package.

    Attributes
    ----------
    accepted
        Advisories that the lower bound in pyproject.toml lets in on purpose; never the lock.
    because
        Why.
    not_found
        What should have been looked up and could not.
    """

    looked_up: date
    advisories: tuple[Advisory, ...]
    accepted: tuple[str, ...] = ()
    because: str = ""
    not_found: str = ""


@dataclass(frozen=True)
class Audit:
    """What was found, for people."""

    problems: tuple[str, ...]
    warnings: tuple[str, ...]
    accepted: tuple[str, ...]
    checked: tuple[str, ...]
    not_found: tuple[str, ...]
    unknown: tuple[str, ...]


def read_advisories(text: str) -> dict[str, Known]:
    """The file of advisories, by package.

    Raises
    ------
    AdvisoriesError
        With the place, what was found, and what is allowed.
    """
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise AdvisoriesError(f"not TOML: {error}") from None
    return {canonicalize_name(name): _known(name, table) for name, table in tables.items()}


def _known(name: str, table: object) -> Known:
    entry = _with_keys(table, name, _KEYS, required={"looked_up", "advisories"})
    looked_up, listed = entry["looked_up"], entry["advisories"]
    if type(looked_up) is not date:
        raise AdvisoriesError(f"{name}.looked_up: expected a day such as 2026-11-22, found {looked_up!r}")
    if not isinstance(listed, list):
        raise AdvisoriesError(f"{name}.advisories: expected a list, found {listed!r}")
    advisories = tuple(_advisory(each, f"{name}.advisories[{number}]") for number, each in enumerate(listed))
    accepted: Mapping[str, object] = {}
    if "accepted" in entry:
        accepted = _with_keys(entry["accepted"], f"{name}.accepted", _ACCEPTED_KEYS, required=_ACCEPTED_KEYS)
    ids = accepted.get("ids", [])
    if not isinstance(ids, list) or not set(map(str, ids)) <= {each.id for each in advisories}:
        raise AdvisoriesError(f"{name}.accepted.ids: expected ids of its advisories, found {ids!r}")
    because, not_found = str(accepted.get("because", "")), str(entry.get("not_found", ""))
    return Known(looked_up, advisories, tuple(map(str, ids)), because, not_found)


def _advisory(table: object, path: str) -> Advisory:
    entry = _with_keys(table, path, _ADVISORY_KEYS, required=_ADVISORY_KEYS)
    try:
        affected = tuple(SpecifierSet(each.strip()) for each in str(entry["affected"]).split(";"))
    except InvalidSpecifier as error:
        raise AdvisoriesError(f"{path}.affected: {error}") from None
    if not all(affected):
        raise AdvisoriesError(f"{path}.affected: expected versions such as <6.5.9, found {entry['affected']!r}")
    return Advisory(str(entry["id"]), affected, str(entry["what"]))


def _with_keys(table: object, path: str, keys: set[str], *, required: set[str]) -> Mapping[str, object]:
    if not isinstance(table, dict) or not required <= set(table) <= keys:
        found = ", ".join(table) if isinstance(table, dict) else repr(table)
        raise AdvisoriesError(f"{path}: expected {', '.join(sorted(keys))}, found {found or 'nothing'}")
    return table


def read_lock(text: str) -> dict[str, Version]:
    """Version by package, of a file that pip reads."""
    return {canonicalize_name(each["name"]): Version(each["version"]) for each in _LOCKED.finditer(text)}


def lower_bounds(text: str) -> dict[str, Version]:
    """The oldest version that pyproject.toml lets in, by package it depends on at run time; 0 without a bound."""
    found = {}
    for line in tomllib.loads(text)["project"]["dependencies"]:
        requirement = Requirement(line)
        least = [Version(each.version) for each in requirement.specifier if each.operator in (">=", "==", "~=")]
        found[canonicalize_name(requirement.name)] = max(least, default=Version("0"))
    return found


def audit(
    known: Mapping[str, Known], locked: Mapping[str, Version], bounds: Mapping[str, Version], today: date
) -> Audit:
    """Compare."""
    problems = [f"pyproject.toml: {name} is not in the lock" for name in sorted(bounds.keys() - locked.keys())]
    warnings: list[str] = []
    accepted: list[str] = []
    for name, entry in sorted(known.items()):
        if name not in locked:
            warnings.append(f"{name}: is not in the lock, so its advisories are for nothing")
        if today - entry.looked_up > timedelta(days=MAX_DAYS):
            warnings.append(f"{name}: was last looked up on {entry.looked_up}, more than {MAX_DAYS} days ago")
        problems += _met("the lock", name, entry, locked.get(name), set())
        problems += _met("pyproject.toml lets in", name, entry, bounds.get(name), set(entry.accepted))
        accepted += _accepted(name, entry, bounds.get(name))
        unneeded = {each.id for each in entry.advisories if name in bounds and not each.meets(bounds[name])}
        for each in sorted(unneeded & set(entry.accepted)):
            problems.append(f"{name}: {each} is accepted, but the lower bound does not let it in")
    checked = tuple(f"{name} {locked[name]} ({known[name].looked_up})" for name in sorted(locked.keys() & known.keys()))
    unknown = tuple(f"{name} {locked[name]}" for name in sorted(locked.keys() - known.keys()))
    not_found = tuple(f"{name}: {entry.not_found}" for name, entry in sorted(known.items()) if entry.not_found)
    return Audit(tuple(problems), tuple(warnings), tuple(accepted), checked, not_found, unknown)


def _met(where: str, name: str, entry: Known, version: Version | None, accepted: set[str]) -> Iterator[str]:
    for each in entry.advisories:
        if version is not None and each.meets(version) and each.id not in accepted:
            yield f"{where}: {name} {version}: {each.id}, {each.what} (affected: {_text(each)})"


def _accepted(name: str, entry: Known, bound: Version | None) -> Iterator[str]:
    ids = [
        each.id for each in entry.advisories if bound is not None and each.meets(bound) and each.id in entry.accepted
    ]
    if ids:
        yield f"{name} >={bound}: {', '.join(ids)}; {entry.because}"


def _text(advisory: Advisory) -> str:
    return " or ".join(map(str, advisory.affected))


def report(found: Audit) -> Iterator[str]:
    """For people, line by line."""
    for title, lines in (
        ("Looked up (on the day that is told)", found.checked),
        ("Could not be looked up", found.not_found),
        ("Nothing was looked up for these", found.unknown),
        ("Let in by the lower bounds on purpose", found.accepted),
        ("Warnings", found.warnings),
        ("Problems", found.problems),
    ):
        if lines:
            yield f"{title}:"
            yield from (f"  {line}" for line in lines)


def main() -> int:
    """Of the files of this checkout."""
    try:
        known = read_advisories(ADVISORIES.read_text())
    except AdvisoriesError as error:
        print(f"{ADVISORIES.name}: {error}")
        return 2
    found = audit(known, read_lock(LOCK.read_text()), lower_bounds(PYPROJECT.read_text()), date.today())
    print("\n".join(report(found)))
    return 1 if found.problems else 0


if __name__ == "__main__":
    sys.exit(main())
