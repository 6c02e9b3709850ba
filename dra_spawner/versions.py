"""Versions of what dra_spawner runs with, and sentences about others.

``docs/reference/versions.md`` has the table of these versions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Final, TypeAlias

from packaging.requirements import Requirement
from packaging.version import InvalidVersion

from dra_spawner import __version__, names

MinorVersion: TypeAlias = tuple[int, int]
# Few digits: nodes and API servers may write anything.
_MINOR = re.compile(r"v?([0-9]{1,3})\.([0-9]{1,3})(?![0-9])")
_NUMBER = re.compile(r"[0-9]{1,3}")
_PATCH = re.compile(r"v?[0-9]{1,3}\.[0-9]{1,3}\.([0-9]{1,3})(?![0-9])")


@dataclass(frozen=True, slots=True)
class Supported:
    """Versions of something that pip does not install.

    Attributes
    ----------
    least
        The oldest one that works.
    tested
        The newest one that the tests run with.
    """

    name: str
    least: MinorVersion
    tested: MinorVersion


#: 1.34 is the first release with ``resource.k8s.io/v1``.
KUBERNETES: Final = Supported("Kubernetes", (1, 34), (1, 37))
#: The Helm chart that installs the hub.
Z2JH: Final = Supported("zero-to-jupyterhub", (4, 0), (4, 4))

#: Packages whose own releases can break the hub's part, and what people call them.
_PACKAGES: Final = {"jupyterhub": "JupyterHub", "jupyterhub-kubespawner": "KubeSpawner"}


def minor_version(text: str) -> MinorVersion | None:
    """Major and minor number of a version such as ``v1.36.3`` or ``4.4.1-0.dev``; None if it is something else."""
    found = _MINOR.match(text)
    return (int(found[1]), int(found[2])) if found else None


def patch_number(text: str) -> int | None:
    """Patch number of a version such as ``v1.36.3-eks-1234``; None if it has none."""
    found = _PATCH.match(text)
    return int(found[1]) if found else None


def served_version(answer: Mapping[str, object]) -> tuple[MinorVersion | None, int | None]:
    """Major and minor, and patch number, of an API server's answer at ``/version``; None for what it does not say.

    Some providers write a minor such as ``36+``.
    """
    major, minor = (_NUMBER.match(str(answer.get(part, ""))) for part in ("major", "minor"))
    patch = patch_number(str(answer.get("gitVersion", "")))
    return ((int(major[0]), int(minor[0])), patch) if major and minor else (None, None)


def kubelet_version(node: Mapping[str, object]) -> tuple[MinorVersion, int | None] | None:
    """The version of a node's kubelet, with its patch number; None if the node names none."""
    found: object = node
    for key in ("status", "nodeInfo", "kubeletVersion"):
        found = found.get(key) if isinstance(found, Mapping) else None
    text = found if isinstance(found, str) else ""
    minor = minor_version(text)
    return (minor, patch_number(text)) if minor is not None else None


def version_problem(supported: Supported, found: MinorVersion | None) -> str:
    """A sentence about a version that is too old, or newer than the tests know; else empty."""
    if found is None or supported.least <= found <= supported.tested:
        return ""
    if found < supported.least:
        return (
            f"{supported.name} {version_text(found)} is not supported: {names.PROJECT} {__version__} needs "
            f"{version_text(supported.least)} or later."
        )
    return (
        f"{supported.name} {version_text(found)} is newer than {version_text(supported.tested)}, the newest version "
        f"that {names.PROJECT} {__version__} is tested with."
    )


def version_text(found: MinorVersion) -> str:
    """The version as people write it, such as ``1.36``."""
    return ".".join(map(str, found))


def own_packages() -> dict[str, str]:
    """Versions of JupyterHub and KubeSpawner in this process' environment, by the name of the package."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def installed_problems() -> tuple[str, ...]:
    """Sentences about the installed JupyterHub and KubeSpawner. pip can be told to ignore what we require."""
    return package_problems(own_packages())


def package_problems(packages: Mapping[str, str], requirements: Iterable[str] | None = None) -> tuple[str, ...]:
    """Sentences about packages that the requirements do not let in.

    Parameters
    ----------
    packages
        Versions by the name of the package.
    requirements
        As in the metadata of this package; None for these.
    """
    found: list[str] = []
    for text in _own_requirements() if requirements is None else requirements:
        requirement = Requirement(text)
        present = packages.get(requirement.name)
        if requirement.name not in _PACKAGES or requirement.marker is not None or present is None:
            continue
        try:
            is_let_in = requirement.specifier.contains(present, prereleases=True)
        except InvalidVersion:
            is_let_in = False
        if not is_let_in:
            wanted = ", ".join(sorted(map(str, requirement.specifier), key=lambda each: each.lstrip("<>=!~")))
            here = f"{_PACKAGES[requirement.name]} {present}"
            found.append(f"{here} is not supported: {names.PROJECT} {__version__} needs {wanted}.")
    return tuple(found)


def _own_requirements() -> Iterable[str]:
    try:
        return requires(names.PROJECT) or ()
    except PackageNotFoundError:
        return ()  # run from a checkout that is not installed
