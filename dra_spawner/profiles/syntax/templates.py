"""Template variables such as ``{vlan}`` in parameters and companion objects.

A template is a tree of JSON values, and so is what comes out of it: each text is expanded by itself and stays a text
(or becomes a number), so that no value can end a string, add a key or change a type. What is more, every value is
checked against a rule of its name first; none of them allows quotes, backslashes, braces, blanks or control characters.

- ``{name}`` within a text is replaced by the value; `VARIABLES` has all names.
- A text that is nothing but ``{vlan}`` (or another number) becomes that number; ``{vlan!s}`` keeps it a text.
- ``{{`` and ``}}`` are braces themselves. A single brace is an error.
- Keys of mappings are never expanded.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dra_spawner.profiles.syntax import rules
from dra_spawner.profiles.syntax.problems import Problem, ProfileError, shown
from dra_spawner.profiles.syntax.rules import ValueRule

#: Lowest and highest identifier of a VLAN; IEEE 802.1Q keeps 0 and 4095 for itself.
MIN_VLAN, MAX_VLAN = 1, 4094

#: Variable -> value.
Values = Mapping[str, str | int]

_TOKEN = re.compile(r"\{\{|\}\}|\{(?P<name>[^{}]*?)(?P<text>!s)?\}|[{}]")


@dataclass(frozen=True, slots=True)
class Variable:
    """One name that may stand in braces.

    Attributes
    ----------
    meaning
        For the documentation and for messages.
    rule
        What may be its value.
    sample
        A value as it might be, for checks without a user.
    """

    meaning: str
    rule: ValueRule
    sample: str | int


def _ip(allowed: str, parse: Callable[[str], object]) -> ValueRule:
    def accepts(value: object) -> bool:
        # A zone ("fe80::1%eth0") may be any text.
        if not isinstance(value, str) or "%" in value or value != value.strip():
            return False
        try:
            parse(value)
        except ValueError:
            return False
        return True

    return ValueRule(allowed, {"type": "string", "pattern": "^[0-9A-Fa-f.:]+(?:/[0-9]{1,3})?$"}, accepts)


def _with_length(value: str) -> object:
    if "/" not in value:
        raise ValueError(value)
    return ipaddress.ip_interface(value)


def _network(value: str) -> object:
    if "/" not in value:
        raise ValueError(value)
    return ipaddress.ip_network(value)


_SLUG = rules.text("a slug of lower-case letters, digits and hyphens", r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?", 63)
_SLUG_OR_EMPTY = rules.text(_SLUG.allowed, r"(?:[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)?", 63)
_PLAIN = r"[A-Za-z0-9](?:[-A-Za-z0-9._@+]*[A-Za-z0-9])?"
_PLAIN_NAME = rules.text(
    "a name of letters, digits and . _ @ + - that begins and ends with one of the former", _PLAIN, 63
)
_PLAIN_NAME_OR_EMPTY = rules.text(_PLAIN_NAME.allowed, rf"(?:{_PLAIN})?", 63)

VLAN = rules.whole_number(f"a VLAN's number from {MIN_VLAN} to {MAX_VLAN}", MIN_VLAN, MAX_VLAN)
ADDRESS = _ip("an IP address with the length of its prefix, such as 10.42.0.7/24", _with_length)
SUBNET = _ip("a network such as 10.42.0.0/24", _network)
GATEWAY = _ip("an IP address such as 10.42.0.1", ipaddress.ip_address)

#: Everything that may stand in braces.
VARIABLES: Mapping[str, Variable] = {
    "username": Variable("the user's name as KubeSpawner makes it safe for names of objects", _SLUG, "ada"),
    "servername": Variable("a named server's name, likewise; empty for the default one", _SLUG_OR_EMPTY, "work"),
    "user_server": Variable("both, in one safe word", _SLUG, "ada--work"),
    "unescaped_username": Variable(
        "the user's name as it is; a start is refused if it has other characters than letters, digits and . _ @ + -",
        _PLAIN_NAME,
        "ada",
    ),
    "unescaped_servername": Variable("a named server's name as it is, likewise", _PLAIN_NAME_OR_EMPTY, "work"),
    "userid": Variable("the number of the user in the hub's database", rules.whole_number("a number", 0, 2**53), 1),
    "pod_name": Variable("the name of the server's pod", rules.OBJECT_NAME, "jupyter-ada"),
    "namespace": Variable("the namespace of the server's pod", rules.NAME, "jupyterhub"),
    "vlan": Variable("the VLAN of the user, or of the group; a number", VLAN, 42),
    "vlan_high": Variable(
        "vlan // 256, for addresses such as 10.{vlan_high}.{vlan_low}.0/24", rules.whole_number("a number", 0, 15), 0
    ),
    "vlan_low": Variable("vlan % 256", rules.whole_number("a number", 0, 255), 42),
    "group": Variable("the group that the VLAN belongs to, made safe as the user's name is", _SLUG, "lab"),
    "address": Variable("address that the mapping of VLANs has for the user or group", ADDRESS, "10.42.0.7/24"),
    "subnet": Variable("network that it has", SUBNET, "10.42.0.0/24"),
    "gateway": Variable("gateway that it has", GATEWAY, "10.42.0.1"),
}

#: A value for each variable, for checks without a user.
SAMPLE_VALUES: Values = {name: variable.sample for name, variable in VARIABLES.items()}


def variable_names(value: object) -> frozenset[str]:
    """Names of the known variables in a template."""
    return frozenset(
        match["name"] for _, text in _texts(value, "") for match in _TOKEN.finditer(text) if match["name"] in VARIABLES
    )


def template_problems(value: object, path: str) -> list[Problem]:
    """What is wrong with a template: unknown names, single braces."""
    problems = []
    for where, text in _texts(value, path):
        for match in _TOKEN.finditer(text):
            name = match["name"]
            if name is None and match[0] in ("{", "}"):
                problems.append(Problem(where, shown(text), "braces around a variable; one itself is {{ or }}"))
                break
            if name is not None and name not in VARIABLES:
                known = ", ".join(f"{{{known}}}" for known in VARIABLES)
                allowed = f"a variable out of {known}; a brace itself is written {{{{ or }}}}"
                problems.append(Problem(where, shown(match[0]), allowed))
                break
    return problems


def value_problem(name: str, value: object) -> str | None:
    """Why this may not be a variable's value, as the rest of a sentence; ``None`` if it may."""
    rule = VARIABLES[name].rule
    return None if rule.accepts(value) else f"{shown(value)} is not {rule.allowed}"


def expand(value: Any, values: Values, path: str = "") -> Any:
    """Put values into a template.

    Parameters
    ----------
    value
        JSON. It is not changed.
    values
        Has at least the variables of `value`.
    path
        Where it stands, for messages.

    Raises
    ------
    ProfileError
        Where the template is wrong, a value is missing, or is none that its name allows.
    """
    problems = template_problems(value, path)
    for name in sorted(variable_names(value)):
        if name not in values:
            problems.append(Problem(path, f"{{{name}}}", "a variable that has a value here"))
        elif wrong := value_problem(name, values[name]):
            problems.append(Problem(path, f"{{{name}}}", f"a value that its rule allows: {wrong}"))
    if problems:
        raise ProfileError(problems)
    return _expanded(value, values)


def _expanded(value: Any, values: Values) -> Any:
    if isinstance(value, str):
        return _expanded_text(value, values)
    if isinstance(value, Mapping):
        return {key: _expanded(entry, values) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_expanded(entry, values) for entry in value]
    return value


def _expanded_text(text: str, values: Values) -> str | int:
    whole = _TOKEN.fullmatch(text)
    if whole and whole["name"] is not None and not whole["text"]:
        return values[whole["name"]]

    def replacement(match: re.Match[str]) -> str:
        return match[0][0] if match["name"] is None else str(values[match["name"]])

    return _TOKEN.sub(replacement, text)


def _texts(value: object, path: str) -> Iterator[tuple[str, str]]:
    """Each text in a tree that may be expanded, with its path."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _texts(entry, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for index, entry in enumerate(value):
            yield from _texts(entry, f"{path}[{index}]")
