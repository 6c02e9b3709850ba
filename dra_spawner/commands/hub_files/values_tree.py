"""Where profiles stand in a tree of values: hubs of umbrella charts, lists below any key, or claims alone. Pure.

The readers of files limit the levels of values, so that recursion ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final

from dra_spawner.common.counted_text import listed
from dra_spawner.profiles.syntax.keys import FORMS, REQUEST_KEYS

LIST_NAMES: Final = ("profile_list", "profileList")

#: The chart's name, under which umbrella charts have it unless they rename it.
_CHART: Final = "jupyterhub"
#: Sections that other charts have, too.
_COMMON: Final = frozenset(("custom", "debug", "imagePullSecret", "imagePullSecrets", "ingress", "proxy", "rbac"))
#: Sections of the chart's values.
_SECTIONS: Final = _COMMON | {"cull", "hub", "prePuller", "scheduling", "singleuser"}
#: Keys of the chart's section ``hub``. Sections of that name in other charts have none of them.
_HUB_KEYS: Final = frozenset(
    (
        "allowNamedServers",
        "baseUrl",
        "concurrentSpawnLimit",
        "config",
        "consecutiveFailureLimit",
        "db",
        "existingSecret",
    )
).union(("extraConfig", "extraEnv", "extraFiles", "extraVolumes", "initContainers", "loadRoles", "services"))
_CLAIM_KEYS: Final = frozenset(key for keys in (REQUEST_KEYS, *FORMS.values()) for key in keys)
_LONGEST_KEY: Final = 64
_ALIKE: Final = 0.75
_SHOWN_KEYS: Final = 8


def merged_as_helm(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merge as ``helm -f`` does: mappings recursively, everything else replaces; nulls stay, see `without_nulls`."""
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            value = merged_as_helm(below, value)
        merged[key] = value
    return merged


def without_nulls(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values without keys that are null: Helm removes these, and the chart's defaults under them."""
    return {
        key: without_nulls(value) if isinstance(value, Mapping) else value
        for key, value in values.items()
        if value is not None
    }


def hubs_in(values: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Values of each hub in values of the chart, or of charts that include it at any depth.

    Returns
    -------
    list
        Path of the values, empty or with a dot at its end; and the values, with global values of the umbrella charts.
    """
    return list(_hubs(values, "", "", {}))


def _hubs(
    values: Mapping[str, Any], key: str, path: str, around: Mapping[str, Any]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    own = values.get("global")
    common = merged_as_helm(own if isinstance(own, Mapping) else {}, around)
    is_hub = _is_hub(values, key, path)
    if is_hub:
        yield path, {**values, **({"global": common} if common else {})}
    for name, below in values.items():
        # A chart that includes the hub's may have sections of the same names.
        if isinstance(below, Mapping) and (not is_hub or name == _CHART) and name != "global":
            yield from _hubs(below, name, f"{path}{name}.", common)


def _is_hub(values: Mapping[str, Any], key: str, path: str) -> bool:
    sections = {name for name in _SECTIONS if isinstance(values.get(name), Mapping)}
    if "singleuser" in sections:
        return True
    if "hub" in sections and not _HUB_KEYS.isdisjoint(values["hub"]):
        return True
    if key == _CHART:
        return bool(sections)
    # A file of a few settings, beside others with the rest. A claim may have the name of a section.
    is_part = "hub" in sections or (bool(sections - _COMMON) and values.keys() <= {*_SECTIONS, "global"})
    return not path and is_part and not (is_claims(values) and any(values.values()))


def lists_in(values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Each mapping that has a list of profiles: its path with a dot at the end, the list's name, and the mapping."""
    for name in LIST_NAMES:
        # At the top a wrong value is a finding; below, the name may mean something else.
        if name in values and (not path or isinstance(values[name], list | Mapping)):
            yield path, name, values
            return
    for key, below in values.items():
        if isinstance(below, Mapping):
            yield from lists_in(below, f"{path}{key}.")


def is_claims(values: Mapping[str, Any]) -> bool:
    """Whether a mapping is ``device_claims``, as far as its keys tell; misspelt ones count."""
    return all(each is None or (isinstance(each, Mapping) and _is_claim(each)) for each in values.values())


def _is_claim(claim: Mapping[str, Any]) -> bool:
    if not claim or not _CLAIM_KEYS.isdisjoint(claim):
        return True
    return any(get_close_matches(key[:_LONGEST_KEY], _CLAIM_KEYS, 1, _ALIKE) for key in list(claim)[:_SHOWN_KEYS])


def shown_keys(values: Mapping[str, Any]) -> str:
    """Keys of a mapping, for a message."""
    return listed(list(values), _SHOWN_KEYS)


def at(value: Any, *path: str) -> Any:
    """The value below some keys; None if one is missing."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
