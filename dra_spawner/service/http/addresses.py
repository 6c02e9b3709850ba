"""Addresses below the service's prefix, in the form of OpenAPI: ``api/calendar-entries/{id}``."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from dra_spawner.service.http.requests.authentication import SecureHandler

Address: TypeAlias = tuple[str, type[SecureHandler]]
"""An address, and its handler, whose methods are declared by `endpoints.endpoint`."""

_PARAMETER: Final = re.compile(r"\{([a-z]+)\}")
#: Parameters whose values may have slashes, which some proxies decode and others refuse as ``%2F``.
_OF_SEVERAL_PARTS: Final = frozenset({"choice", "device"})


def parameters_of(address: str) -> tuple[str, ...]:
    """Names of the parameters in an address, in their order."""
    return tuple(_PARAMETER.findall(address))


def pattern_of(address: str) -> str:
    """The address as a regular expression: a parameter is one part of the path, a choice or a device several."""
    return _PARAMETER.sub(lambda found: "(.+)" if found[1] in _OF_SEVERAL_PARTS else "([^/]+)", address)
