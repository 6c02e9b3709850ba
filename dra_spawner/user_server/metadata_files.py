"""Files that DRA drivers mount into containers about their devices (KEP-5304): beta in Kubernetes 1.37.

``<directory>/<kind of claim>/<claim>/<request>/<driver>-metadata.json`` is a stream of equal objects in several
versions, the newest first. A file may be empty until a network driver knows more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final

from dra_spawner import names
from dra_spawner.user_server.shown_devices import NetworkInterface, ShownDevice, text

DIRECTORY: Final = Path("/var/run/kubernetes.io/dra-device-attributes")
_KINDS: Final = ("resourceclaims", "resourceclaimtemplates")
#: The fields that are read are the same in all of them.
_VERSIONS: Final = frozenset(f"{names.METADATA_GROUP}/{version}" for version in ("v1", "v1beta1", "v1alpha1"))
_PRODUCT: Final = ("productName", "model")
_MAX_FILES: Final = 64
_MAX_BYTES: Final = 2**20


def devices_in_files(directory: Path = DIRECTORY) -> list[ShownDevice]:
    """Return the devices of which drivers have written files. A file that cannot be read counts as absent."""
    files = (path for kind in _KINDS for path in sorted(directory.glob(f"{kind}/*/*/*-metadata.json")))
    found: dict[tuple[str, str, str], ShownDevice] = {}
    for path in islice(files, _MAX_FILES):
        for device in _devices(path):
            found[device.key] = device
    return list(found.values())


def _devices(path: Path) -> Iterator[ShownDevice]:
    metadata = _metadata(path)
    # The pod's own name of a claim from a template stands in the object, that of others only in the path.
    claim = text(metadata.get("podClaimName")) or text(path.parts[-3])
    for request in _objects(metadata.get("requests")):
        for device in _objects(request.get("devices")):
            attributes = _attributes(device.get("attributes"))
            yield ShownDevice(
                driver=text(device.get("driver")),
                pool=text(device.get("pool")),
                name=text(device.get("name")),
                claim=claim,
                request=text(request.get("name")),
                product=next((attributes[name] for name in _PRODUCT if name in attributes), ""),
                network=_network(device.get("networkData")),
                attributes=attributes,
            )


def _metadata(path: Path) -> Mapping[str, Any]:
    """The first object of a known version; empty if there is none."""
    try:
        with path.open(encoding="utf-8") as file:
            content = file.read(_MAX_BYTES)
        decoder, position = json.JSONDecoder(), 0
        while rest := content[position:].lstrip():
            position = len(content) - len(rest)
            found, position = decoder.raw_decode(content, position)
            if isinstance(found, dict) and text(found.get("apiVersion")) in _VERSIONS:
                return found
    except (OSError, ValueError, RecursionError):
        pass
    return {}


def _attributes(found: object) -> dict[str, str]:
    """Attributes as text, whatever their type."""
    attributes = {}
    for name, value in found.items() if isinstance(found, Mapping) else ():
        if isinstance(value, Mapping) and value:
            first = next(iter(value.values()))
            shown = first if isinstance(first, str) else json.dumps(first)
            attributes[text(name)] = text(shown)
    return attributes


def _network(found: object) -> NetworkInterface | None:
    if not isinstance(found, Mapping) or not found:
        return None
    ips = found.get("ips")
    addresses = (text(each) for each in (ips if isinstance(ips, list) else ()))
    return NetworkInterface(
        text(found.get("interfaceName")), text(found.get("hardwareAddress")), tuple(filter(None, addresses))
    )


def _objects(found: object) -> list[Mapping[str, Any]]:
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []
