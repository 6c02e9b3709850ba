"""Reading of the setting ``idle_servers``; docs/how-to/idle-devices.md describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Final

from dra_spawner.fairness.idle.metrics import PRESETS, MetricQuery, TellsApart
from dra_spawner.fairness.idle.policy import IdlePolicy, IdleSettings, PrometheusAddress
from dra_spawner.profiles.syntax.problems import Problem, shown
from dra_spawner.profiles.syntax.settings_reader import SettingsReader, refuse_settings, shown_setting

_MAX_MINUTES: Final = 60 * 24 * 30
_MAX_QUERIES: Final = 20
_MAX_POLICIES: Final = 1_000
_AN_ADDRESS: Final = "an address that begins with https:// or http://"
_A_QUERY: Final = f'{", ".join(PRESETS)}, or a mapping like {{"drivers": ["gpu.nvidia.com"], "query": "..."}}'
_A_POLICY: Final = 'a mapping like {"after_minutes": 60, "notice_minutes": 15}'


def read_idle_settings(value: object, path: str = "idle_servers") -> IdleSettings:
    """The setting as configured; off without a value.

    Raises
    ------
    SettingsError
        With path, found and allowed values of every problem; it shows no address.
    """
    reader = SettingsReader(value, path, f'a mapping like {{"policies": {{"*": {_A_POLICY[15:]}}}}}')
    prometheus = _prometheus(reader)
    look = timedelta(seconds=reader.number("look_seconds", 60, 15, 600))
    policies = _policies(reader)
    reader.refuse_other_keys()
    for each in policies.values():
        if each.notice < 2 * look:
            reader.refuse("look_seconds", "at most half of each notice_minutes")
            break
    refuse_settings(reader.problems)
    return IdleSettings(bool(reader.given), prometheus, policies, look)


def _address(reader: SettingsReader, key: str) -> str:
    value = reader.value(key)
    if value is None:
        return ""
    if isinstance(value, str) and value.startswith(("http://", "https://")) and value.isprintable():
        return value.rstrip("/")
    reader.refuse(key, _AN_ADDRESS, "a text" if isinstance(value, str) else None)
    return ""


def _prometheus(reader: SettingsReader) -> PrometheusAddress:
    given = reader.value("prometheus")
    if given is None:
        return PrometheusAddress()
    inner = reader.inner("prometheus", given, 'a mapping like {"url": "http://prometheus:9090", "queries": ["dcgm"]}')
    url = _address(inner, "url")
    if inner.is_mapping and not inner.given.get("url"):
        inner.refuse("url", _AN_ADDRESS)
    token_file = inner.text("token_file", allowed="the path of a file")
    entries = inner.value("queries")
    queries: tuple[MetricQuery, ...] = ()
    if isinstance(entries, list | tuple) and 0 < len(entries) <= _MAX_QUERIES:
        places = enumerate(entries)
        found = [_query(each, f"{inner.path_of('queries')}[{number}]", reader.problems) for number, each in places]
        queries = tuple(each for each in found if each is not None)
    elif inner.is_mapping:
        inner.refuse("queries", f"a list of 1 to {_MAX_QUERIES} queries, each {_A_QUERY}")
    inner.refuse_other_keys()
    return PrometheusAddress(url, token_file, queries)


def _query(value: object, path: str, problems: list[Problem]) -> MetricQuery | None:
    if isinstance(value, str) and value in PRESETS:
        return PRESETS[value]
    if not isinstance(value, Mapping):
        problems.append(Problem(path, shown_setting(value), _A_QUERY))
        return None
    reader = SettingsReader(value, path, _A_QUERY, problems)
    preset = reader.checked("preset", PRESETS.__getitem__, " or ".join(PRESETS)) or MetricQuery("")
    query = reader.value("query")
    if query is None and not preset.query:
        reader.refuse("query", "a query of Prometheus, or a preset")
    elif query is not None and not (isinstance(query, str) and 0 < len(query) <= 10_000):
        reader.refuse("query", "a query of Prometheus with at most 10,000 characters")
    found = replace(
        preset,
        query=query if isinstance(query, str) else preset.query,
        drivers=reader.texts("drivers") or preset.drivers,
        used_above=reader.number("used_above", preset.used_above, 0, 1e9),
        apart=reader.checked("apart", TellsApart, " or ".join(TellsApart)) or preset.apart,
    )
    reader.refuse_other_keys()
    return found


def _policies(reader: SettingsReader) -> dict[str, IdlePolicy]:
    given = reader.value("policies")
    path, found = reader.path_of("policies"), dict[str, IdlePolicy]()
    if given is None:
        return found
    if not isinstance(given, Mapping) or len(given) > _MAX_POLICIES:
        reader.problems.append(Problem(path, shown(given), "a mapping of profiles, or *, to policies"))
        return found
    for name, value in given.items():
        each = SettingsReader(value, f"{path}.{shown(name)}", _A_POLICY, reader.problems)
        after = _minutes(each, "after_minutes", 60, 5)
        if each.is_mapping and "after_minutes" not in each.given:
            each.refuse("after_minutes", f"a number from 5 to {_MAX_MINUTES}")
        policy = IdlePolicy(
            after,
            _minutes(each, "notice_minutes", 15, 2),
            _minutes(each, "keep_minutes", 120, 5),
            each.whole_number("keeps", 3, 0, 1000),
        )
        each.refuse_other_keys()
        found[str(name)] = policy
    return found


def _minutes(reader: SettingsReader, key: str, default: float, least: float) -> timedelta:
    return timedelta(minutes=reader.number(key, default, least, _MAX_MINUTES))
