"""Overrides as the data of a ConfigMap.

An invalid part is left out, as another version or a person may have written it. It stays in the ConfigMap: what is
written has it, too. A key that is no JSON is not overwritten, and the last known settings of it count.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from dra_spawner.common.json_types import JsonObject
from dra_spawner.common.kept_json import by_fields, moment_in, read_json, text_in, with_unknown
from dra_spawner.placeholders.planner.targets.class_records import class_records_text, read_class_records
from dra_spawner.placeholders.planner.targets.overrides import (
    MAX_AUDITED,
    MAX_ORDERS,
    MAX_OVERRIDES,
    AuditEntry,
    Override,
    OverrideKind,
    Overrides,
    StoredOrder,
    setting_json,
)
from dra_spawner.placeholders.planner.targets.policy import MAX_PLACEHOLDERS, ReplicaRange
from dra_spawner.simulator.model.claims import ObjectKey

MAX_BYTES: Final = 1_000_000
"""Limit of the data; a ConfigMap holds 1 MiB."""
_SETTINGS_KEY: Final = "settings.json"
_ORDERS_KEY: Final = "orders.json"
_ENTRIES_KEY: Final = "calendar-entries.json"
_CLASSES_KEY: Final = "classes.json"
_AUDIT_KEY: Final = "audit.json"
#: Limit of the text of the audit trail; it is shorter where other parts need the room.
_MAX_AUDIT_TEXT: Final = 350_000
_LONGEST: Final = 4_000
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_TYPES: Final[Mapping[str, type]] = {
    _SETTINGS_KEY: list,
    _ORDERS_KEY: list,
    _ENTRIES_KEY: dict,
    _CLASSES_KEY: dict,
    _AUDIT_KEY: list,
}
_IDENTITIES: Final = {
    _SETTINGS_KEY: by_fields("kind", "name"),
    _AUDIT_KEY: by_fields("at", "by", "change", "subject"),
}
"""Of lists whose objects may have more than this version knows. Orders last for minutes."""


class OverridesUnreadable(ValueError):
    """Raised where settings would overwrite what cannot be read; the message is the end of a sentence."""


class OverridesTooLarge(ValueError):
    """Raised where settings do not fit a ConfigMap."""


def overrides_data(settings: Overrides) -> dict[str, str]:
    """The data of the ConfigMap."""
    audit = (
        {"at": each.at.isoformat(), "by": each.by, "change": each.change, "subject": each.subject}
        | ({"details": each.details} if each.details else {})
        for each in settings.audit
    )
    return {
        _SETTINGS_KEY: _settings_text([setting_json(each) for _, each in sorted(settings.settings.items())]),
        _ORDERS_KEY: json.dumps([_order_json(each) for each in settings.orders]),
        _ENTRIES_KEY: json.dumps(settings.entries),
        _CLASSES_KEY: class_records_text(settings.classes),
        _AUDIT_KEY: _newest(map(json.dumps, audit)),
    }


def _settings_text(settings: list[Any]) -> str:
    return json.dumps(settings, indent=1)  # as people read them


def changed_data(obj: JsonObject | None, settings: Overrides) -> dict[str, str]:
    """The data of a ConfigMap with other settings, and with all that is in it and not known here.

    Raises
    ------
    OverridesUnreadable
        If a key is no JSON.
    OverridesTooLarge
        If it would be larger than a ConfigMap may be.
    """
    stored, new = _data_of(obj), overrides_data(settings)
    if unreadable := unreadable_keys(obj):
        raise OverridesUnreadable(f"its key {unreadable[0]} is no valid JSON; mend it, or empty it")
    known = overrides_data(read_overrides(obj))
    for key, text in new.items():
        if (before := read_json(stored.get(key))) and stored[key] != known[key]:
            identity = _IDENTITIES.get(key, by_fields())
            found = json.loads(text)
            if key != _ORDERS_KEY and (kept := with_unknown(found, json.loads(known[key]), before, identity)) != found:
                new[key] = _settings_text(kept) if key == _SETTINGS_KEY else json.dumps(kept)
    data = {**stored, **new}
    if (over := _size(data) - MAX_BYTES) > 0:
        data[_AUDIT_KEY] = _newest(map(json.dumps, json.loads(data[_AUDIT_KEY])), len(data[_AUDIT_KEY]) - over)
    if _size(data) > MAX_BYTES:
        raise OverridesTooLarge
    return data


def _size(data: Mapping[str, object]) -> int:
    return sum(len(str(each).encode(errors="replace")) for each in data.values())


def _data_of(obj: JsonObject | None) -> JsonObject:
    data = obj.get("data") if obj is not None else None
    return data if isinstance(data, dict) else {}


def unreadable_keys(obj: JsonObject | None) -> list[str]:
    """Keys of a ConfigMap that have no JSON of the right type, as after a mistake of a person."""
    data = _data_of(obj)
    return [key for key, kind in _TYPES.items() if data.get(key) and not _is_readable(data[key], kind)]


def _is_readable(text: object, kind: type) -> bool:
    try:
        found = json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError):
        return False
    return not found or isinstance(found, kind)


def read_overrides(obj: JsonObject | None, last: Overrides | None = None) -> Overrides:
    """The settings in a ConfigMap; empty without one.

    Parameters
    ----------
    last
        What counts for keys that are no JSON; None for nothing.
    """
    data = _data_of(obj)
    found = _read(data)
    if last is None or not (unreadable := unreadable_keys(obj)):
        return found
    fields = {
        _SETTINGS_KEY: "settings",
        _AUDIT_KEY: "audit",
        _ORDERS_KEY: "orders",
        _ENTRIES_KEY: "entries",
        _CLASSES_KEY: "classes",
    }
    return replace(found, **{fields[key]: getattr(last, fields[key]) for key in unreadable})


def _read(found: JsonObject) -> Overrides:
    data = {key: _whole_characters(each) for key, each in found.items()}
    settings = [each for each in map(_read_setting, _read_list(data.get(_SETTINGS_KEY))) if each is not None]
    audit = [each for each in map(_read_audit, _read_list(data.get(_AUDIT_KEY))) if each is not None]
    orders = [each for each in map(_read_order, _read_list(data.get(_ORDERS_KEY))) if each is not None]
    return Overrides(
        {each.key: each for each in settings[:MAX_OVERRIDES]},
        tuple(audit[-MAX_AUDITED:]),
        tuple(orders[:MAX_ORDERS]),
        _read_entries(data.get(_ENTRIES_KEY)),
        read_class_records(data.get(_CLASSES_KEY)),
    )


def _order_json(order: StoredOrder) -> JsonObject:
    return {
        "namespace": order.key.namespace,
        "name": order.key.name,
        "uid": order.uid,
        "server": order.server,
        "by": order.by,
        "at": order.at.isoformat(),
    }


def _newest(audit: Iterable[str], most: int = _MAX_AUDIT_TEXT) -> str:
    """A JSON list of the last entries, as many as may be stored."""
    kept: deque[str] = deque()
    size = 0
    for each in audit:
        kept.append(each)
        size += len(each) + 2
        while kept and size > most - 2:
            size -= len(kept.popleft()) + 2
    return f"[{', '.join(kept)}]"


def _read_list(text: object) -> Iterable[Any]:
    found = read_json(text)
    return found if isinstance(found, list) else []


def _read_entries(text: object) -> dict[str, JsonObject]:
    found = read_json(text)
    return {name: each for name, each in found.items() if isinstance(each, dict)} if isinstance(found, dict) else {}


def _whole_characters(text: object) -> object:
    """JSON without halves of characters, with which no page can be written."""
    if not isinstance(text, str) or _SURROGATE.search(text) is None:
        return text
    try:
        return json.dumps(json.loads(text), ensure_ascii=False).encode(errors="replace").decode()
    except (ValueError, RecursionError):
        return text


def _read_setting(written: Any) -> Override | None:
    try:
        kind = OverrideKind(written["kind"])
        replicas = None
        if kind is OverrideKind.PLACEHOLDERS:
            replicas = ReplicaRange(_number(written["min"]), _number(written["max"]))
            if replicas.min > replicas.max:
                return None
        until = moment_in(written["until"]) if "until" in written else None
        evict_at = moment_in(written["evict_at"]) if "evict_at" in written else None
        texts = (_text(written["name"]), _text(written["by"]))
        reason = _text(written.get("reason", ""))
        return Override(kind, *texts, moment_in(written["at"]), until, reason, replicas, evict_at)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _read_order(written: Any) -> StoredOrder | None:
    try:
        namespace, name, uid, server, by = (_text(written[key]) for key in ("namespace", "name", "uid", "server", "by"))
        return StoredOrder(ObjectKey(namespace, name), uid, server, by, moment_in(written["at"]))
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _read_audit(written: Any) -> AuditEntry | None:
    try:
        by, change, subject = (_text(written[key]) for key in ("by", "change", "subject"))
        return AuditEntry(moment_in(written["at"]), by, change, subject, _text(written.get("details", "")))
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _number(found: object) -> int:
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= MAX_PLACEHOLDERS:
        raise ValueError(found)
    return found


def _text(found: object) -> str:
    return text_in(found, _LONGEST)
