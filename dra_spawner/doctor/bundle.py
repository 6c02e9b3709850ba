"""The report of an examination as one file for an issue: without secrets, with other names for people and hosts."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.doctor.examination import report_json
from dra_spawner.doctor.facts import DoctorFacts
from dra_spawner.doctor.findings import DoctorFinding
from dra_spawner.doctor.objects import labels_of, name_of

_HIDDEN: Final = "[hidden]"
_FORMAT: Final = 1
#: Long words without spaces that look random: tokens, keys, hashes of passwords.
_SECRET: Final = re.compile(r"(?<![\w-])(?=[\w+=-]*\d)(?=[\w+=-]*[A-Za-z])[\w+=-]{24,}")
#: A JSON Web Token.
_WEB_TOKEN: Final = re.compile(r"\beyJ[\w-]+(?:\.[\w-]+)*")
#: What follows such a word is hidden up to the next space: `token abc`, `password=abc`. The first may follow others.
_NAMED_SECRETS: Final = tuple(
    re.compile(rf"(?i)\b((?:{words})\b[\"']?\s*[:=]?\s*[\"']?)([^\s\"',;]+)")
    for words in ("token|bearer|basic", "(?:[a-z]+[_-])?(?:token|password|passwd|secret|key)|authorization|cookie")
)
#: User and password in an address; the latter may have slashes and at signs.
_CREDENTIALS: Final = re.compile(r"(?<=://)\S{1,1000}@")
_ADDRESS: Final = re.compile(r"(?<=://)[^/\s\"']+")
_MAIL: Final = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_SERVER: Final = re.compile(r"\bjupyter-[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?")
_IP: Final = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b")
#: What may be an address of IPv6, or a time.
_COLONS: Final = re.compile(r"(?<![\w:])[0-9A-Fa-f:]{3,39}(?![\w:])")
_USER_LABELS: Final = (names.USERNAME, names.SERVERNAME)
_SHORTEST: Final = 3
_MAX_FINDINGS: Final = 2_000


class Pseudonyms:
    """Other names, the same one for the same name, by a key that is forgotten with the process."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key or secrets.token_bytes(32)

    def of(self, kind: str, name: str) -> str:
        """The other name, such as ``user-3f9a1c``."""
        digest = hashlib.blake2b(name.encode(errors="replace"), key=self._key, digest_size=3).hexdigest()
        return f"{kind}-{digest}"


def bundle(
    facts: DoctorFacts,
    findings: tuple[DoctorFinding, ...],
    version: str,
    pseudonyms: Pseudonyms | None = None,
) -> str:
    """The bundle as JSON.

    Only what is listed here leaves the cluster: versions, counts, and the findings' texts. Of these, values of
    environment variables, secrets, mail addresses, hosts, and names of users and their servers are replaced.

    Parameters
    ----------
    version
        Of this program.
    """
    others = pseudonyms or Pseudonyms()
    hidden = _values_of_environments(facts)
    users = _users(facts)
    content: JsonObject = {
        "format": _FORMAT,
        "dra_spawner": version,
        "report": report_json(facts, findings[:_MAX_FINDINGS]),
        "kubernetes_patch": facts.kubernetes_patch,
        "api_versions": sorted(facts.versions or ()),
        "packages": dict(sorted(facts.packages.items())),
        "gates": dict(sorted((facts.gates or {}).items())),
        "drivers": sorted({each.pool_id.driver for each in facts.slices or ()}),
        "device_classes": sorted(each.name for each in facts.classes or ()),
        "counts": {
            "nodes": len(facts.nodes or ()),
            "slices": len(facts.slices or ()),
            "claims": len(facts.claims or ()),
            "pods": len(facts.hub_namespace_pods or ()),
        },
        "unseen": [each.what for each in facts.unseen],
    }
    return json.dumps(_cleaned(content, hidden, users, others), indent=1, sort_keys=True) + "\n"


def _cleaned(value: Any, hidden: Iterable[str], users: Iterable[str], others: Pseudonyms) -> Any:
    if isinstance(value, str):
        return _clean(value, hidden, users, others)
    if isinstance(value, Mapping):
        return {
            _clean(str(key), hidden, users, others): _cleaned(each, hidden, users, others)
            for key, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [_cleaned(each, hidden, users, others) for each in value]
    return value


def _clean(text: str, hidden: Iterable[str], users: Iterable[str], others: Pseudonyms) -> str:
    for each in hidden:
        text = text.replace(each, _HIDDEN)
    text = _CREDENTIALS.sub(f"{_HIDDEN}@", text)
    text = _ADDRESS.sub(lambda found: others.of("host", found[0]), text)
    text = _MAIL.sub(lambda found: others.of("user", found[0]), text)
    for each in users:
        text = re.sub(rf"(?<![\w]){re.escape(each)}(?![\w])", lambda found: others.of("user", found[0]), text)
    text = _SERVER.sub(lambda found: others.of("server", found[0]), text)
    text = _IP.sub(lambda found: others.of("address", found[0]), text)
    text = _COLONS.sub(lambda found: others.of("address", found[0]) if _is_ipv6(found[0]) else found[0], text)
    text = _WEB_TOKEN.sub(_HIDDEN, text)
    for pattern in _NAMED_SECRETS:
        text = pattern.sub(rf"\1{_HIDDEN}", text)
    return _SECRET.sub(_HIDDEN, text)


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _values_of_environments(facts: DoctorFacts) -> list[str]:
    """Values of environment variables of all pods that were read, the longest first; short ones are words."""
    objects = (facts.hub_namespace_pods, facts.control_plane, facts.deployments, facts.daemon_sets)
    values = {value for group in objects for obj in group or () for value in _environment_values(obj)}
    found = {each for each in values if len(each) >= 2 * _SHORTEST}
    return sorted(found, key=lambda each: (-len(each), each))


def _environment_values(value: Any) -> Iterator[str]:
    """Values in each list ``env`` of an object, whatever it is a part of."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key == "env" and isinstance(inner, list):
                yield from (str(each["value"]) for each in inner if isinstance(each, Mapping) and each.get("value"))
            yield from _environment_values(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _environment_values(inner)


def _users(facts: DoctorFacts) -> list[str]:
    """Names of users that labels, annotations, claims and namespaces have, the longest first."""
    found: set[str] = set()
    for pod in facts.hub_namespace_pods or ():
        annotations = (pod.get("metadata") or {}).get("annotations") or {}
        for texts in (labels_of(pod), annotations):
            found.update(str(texts[each]) for each in _USER_LABELS if texts.get(each))
        if name_of(pod).startswith("jupyter-"):
            found.add(name_of(pod).removeprefix("jupyter-"))
    for each in facts.server_namespaces or ():
        if each.startswith(f"{facts.namespace}-"):
            found.add(each.removeprefix(f"{facts.namespace}-"))
    return sorted((each for each in found if len(each) >= _SHORTEST), key=lambda each: (-len(each), each))
