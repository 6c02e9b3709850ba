"""Versions that this project works with."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Final

from dra_spawner import names

__all__ = ["LEAST_CHART", "LEAST_KUBERNETES", "NEWEST_KUBERNETES", "own_packages", "package_problems"]

#: The first release with ``resource.k8s.io/v1``, and the newest one that was tested.
LEAST_KUBERNETES: Final = (1, 34)
NEWEST_KUBERNETES: Final = (1, 36)
#: Of zero-to-jupyterhub.
LEAST_CHART: Final = (4, 0)

_TITLES: Final = {"jupyterhub": "JupyterHub", "jupyterhub-kubespawner": "KubeSpawner"}
_REQUIREMENT: Final = re.compile(r"([A-Za-z0-9._-]+)\s*\(?([^;)]*)")
_BOUND: Final = re.compile(r"\s*(>=|<=|==|!=|<|>|~=)\s*([0-9][0-9.*]*)")


def own_packages() -> dict[str, str]:
    """The versions of JupyterHub and KubeSpawner in this process' environment."""
    found = {}
    for name in _TITLES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def package_problems(found: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """A sentence, and what is required, for each version that the package's own requirements exclude.

    Parameters
    ----------
    found
        Versions by the name of the package.
    """
    for name, bounds in _bounds().items():
        if name in found and (wrong := _broken_bound(found[name], bounds)):
            yield f"{_TITLES[name]} {found[name]} is not supported: dra-spawner needs {name} {bounds}.", wrong


def _bounds() -> dict[str, str]:
    try:
        texts = requires(names.PROJECT) or []
    except PackageNotFoundError:
        return {}
    matches = (_REQUIREMENT.match(each) for each in texts if "extra ==" not in each)
    return {match[1].lower(): match[2].strip() for match in matches if match and match[1].lower() in _TITLES}


def _broken_bound(text: str, bounds: str) -> str:
    """The first bound that a version breaks; empty if there is none. Suffixes of pre-releases do not count."""
    own = _numbers(text)
    for operator, bound in _BOUND.findall(bounds):
        wanted = _numbers(bound)
        prefix = own[: len(wanted)] == wanted
        length = max(len(own), len(wanted))
        left, right = own + (0,) * (length - len(own)), wanted + (0,) * (length - len(wanted))
        holds = {
            ">=": left >= right,
            "<=": left <= right,
            ">": left > right,
            "<": left < right,
            "==": prefix,
            "!=": not (prefix if bound.endswith("*") else left == right),
            "~=": left >= right and own[: len(wanted) - 1] == wanted[:-1],
        }[operator]
        if not holds:
            return f"{operator}{bound}"
    return ""


def _numbers(text: str) -> tuple[int, ...]:
    match = re.match(r"\d+(\.\d+)*", text)
    return tuple(map(int, match[0].split("."))) if match else ()
