"""Claims that the drivers' own documentation shows, each written in the language; their specs are in documented/."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.policy import YAML_LOADER
from tests.profiles.drivers.bed import RESOURCE_API

Json = dict[str, Any]

_DIRECTORY = Path(__file__).parent / "documented"


@dataclass(frozen=True)
class DocumentedClaim:
    """One example of a driver's documentation.

    Attributes
    ----------
    device_claims
        The same in the language.
    words
        The same with words of the language instead of CEL, where words exist.
    specs
        Claim -> ``devices`` of the ResourceClaimSpec that the documentation shows; empty where it shows none of its own.
    shared
        Object that exists before the server starts.
    containers
        Container -> ``resources.claims``, where the example is about that.
    bed
        Node on which the claim is tried.
    devices
        Request -> devices; ``None`` where nothing fits.
    findings, findings_offline
        Findings of a check of the example on its bed, beyond the taint of the node, and findings without a cluster.
    """

    name: str
    device_claims: Json
    words: Json | None = None
    specs: Mapping[str, Json] = field(default_factory=dict)
    shared: Json | None = None
    containers: Mapping[str, list[Json]] | None = None
    bed: str = ""
    devices: Mapping[str, list[str]] | None = None
    findings: tuple[str, ...] = ()
    findings_offline: tuple[str, ...] = ()


def _read(name: str, entry: Json) -> DocumentedClaim:
    entry = dict(entry)
    if "spec" in entry:
        (claim,) = entry["device_claims"]
        entry["specs"] = {claim: entry.pop("spec")}
    if entry.get("devices") == "none":
        del entry["devices"]
    if "shared" in entry:
        shared = entry["shared"]
        spec: Json = {"devices": shared["spec"]}
        entry["shared"] = {
            "apiVersion": RESOURCE_API,
            "kind": shared["kind"],
            "metadata": {"name": shared["name"]},
            "spec": {"spec": spec} if shared["kind"] == "ResourceClaimTemplate" else spec,
        }
    for key in ("findings", "findings_offline"):
        entry[key] = tuple(entry.get(key, ()))
    return DocumentedClaim(name, **entry)


#: Name -> example, of all drivers.
DOCUMENTED: Mapping[str, DocumentedClaim] = {
    name: _read(name, entry)
    for path in sorted(_DIRECTORY.glob("*.yaml"))
    for name, entry in yaml.load(path.read_text(), YAML_LOADER).items()
}
