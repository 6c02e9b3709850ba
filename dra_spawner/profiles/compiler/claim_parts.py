"""Parts of claims beside their requests: with whom a claim is shared, objects that go with it, pairs of requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from dra_spawner.dra.model.claim_sizes import SIZE_ALLOWED, wrong_sizes
from dra_spawner.profiles.compiler.claims import Companion, DeviceConstraint, DeviceRequest, SharedBy, Sharing
from dra_spawner.profiles.compiler.request_reader import RequestReader
from dra_spawner.profiles.syntax import rules
from dra_spawner.profiles.syntax.keys import (
    COMPANION_KEYS,
    MAX_CLAIMS,
    MAX_PAIRS,
    MAX_REQUESTS,
    PAIRS_KEYS,
    SHARING_KEYS,
)
from dra_spawner.profiles.syntax.templates import SAMPLE_VALUES, expand, template_problems

_SHARING_EXAMPLE = "a mapping such as {by: user} or {by: group, group: physics}"
_PAIRS_EXAMPLE = "a mapping with count, match_attribute and requests"
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_SET_COUNT = rules.whole_number(f"a whole number from 1 to {MAX_PAIRS}", 1, MAX_PAIRS)

#: Kinds whose plural need not be said: apiVersion's group, kind -> plural.
PLURALS: Mapping[tuple[str, str], str] = {
    ("", "ConfigMap"): "configmaps",
    ("", "Secret"): "secrets",
    ("", "Service"): "services",
    ("k8s.cni.cncf.io", "NetworkAttachmentDefinition"): "network-attachment-definitions",
    ("resource.nvidia.com", "ComputeDomain"): "computedomains",
}
_FIELDS_OF_THE_START = ("namespace", "ownerReferences", "uid", "resourceVersion", "generateName", "finalizers")


class ClaimPartsReader(RequestReader):
    """Reads the keys of a claim beside its requests."""

    def sharing(self, value: object, path: str) -> Sharing | None:
        """``shared``; ``null`` is not shared."""
        if value is None:
            return None
        entry = self.keyed(value, path, SHARING_KEYS, "keys of shared", _SHARING_EXAMPLE)
        if entry is None:
            return None
        by, keep = entry.get("by"), entry.get("keep")
        if by is None or not self.follows(rules.SHARED_BY, by, f"{path}.by"):
            return None
        if keep is not None:
            self.follows(rules.KEEP, keep, f"{path}.keep")
        return Sharing(SharedBy(str(by)), self._groups(entry.get("group"), str(by), f"{path}.group"), _seconds(keep))

    def _groups(self, value: object, by: str, path: str) -> tuple[str, ...]:
        if by != SharedBy.GROUP:
            if value is not None:
                self.refuse(path, value, "group with by: group only")
            return ()
        if value is None:
            self.missing(path, "the group whose servers share the claim, or a list of such")
            return ()
        groups = value if isinstance(value, list | tuple) else [value]
        if not groups:
            self.missing(path, "at least one group")
        for index, group in enumerate(groups):
            self.follows(rules.GROUP_NAME, group, f"{path}[{index}]" if isinstance(value, list | tuple) else path)
        return tuple(map(str, groups))

    def companions(self, value: object, path: str) -> tuple[Companion, ...]:
        """``companions``; ``null`` is none."""
        if value is None:
            return ()
        return self.named(value, path, "a companion", MAX_CLAIMS, self._companion)

    def _companion(self, name: str, value: object, path: str) -> Companion | None:
        entry = self.keyed(value, path, COMPANION_KEYS, "keys of a companion", "a mapping with at least manifest")
        if entry is None or entry.get("manifest") is None:
            return None
        where = f"{path}.manifest"
        before = len(self.problems)
        if self.mapping(entry["manifest"], where, "a manifest with apiVersion and kind") is None:
            return None
        manifest = self.json(entry["manifest"], where)
        if len(self.problems) > before or not isinstance(manifest, dict):
            return None
        for key, rule in (("apiVersion", rules.API_VERSION), ("kind", rules.KIND)):
            self.follows(rule, manifest.get(key), f"{where}.{key}")
        metadata = manifest.setdefault("metadata", {})
        if self.mapping(metadata, f"{where}.metadata", "a mapping") is None:
            return None
        for each in _FIELDS_OF_THE_START:
            if each in metadata:
                self.refuse(f"{where}.metadata.{each}", metadata[each], f"no {each}: the start sets it")
        for each in ("labels", "annotations"):
            self.mapping(metadata.get(each, {}), f"{where}.metadata.{each}", "a mapping")
        problems = template_problems(manifest, where)
        self.problems += problems
        if not problems:
            if "name" in metadata:
                self.follows(rules.OBJECT_NAME, expand(metadata["name"], SAMPLE_VALUES), f"{where}.metadata.name")
            for place, _, size in wrong_sizes(expand(manifest, SAMPLE_VALUES), where):
                self.refuse(place, size, SIZE_ALLOWED)
        return Companion(name, self._plural(entry.get("resource"), manifest, path), manifest)

    def _plural(self, value: object, manifest: Mapping[str, object], path: str) -> str:
        if value is not None:
            return self.text(rules.PLURAL, value, f"{path}.resource")
        group, _, _ = str(manifest.get("apiVersion")).rpartition("/")
        plural = PLURALS.get((group, str(manifest.get("kind"))), "")
        if not plural:
            self.missing(f"{path}.resource", f"{rules.PLURAL.allowed} for kind {manifest.get('kind')}")
        return plural

    def pairs(self, value: object, path: str) -> Pairs:
        """``pairs``, expanded; ``null`` is none."""
        if value is None:
            return Pairs()
        entry = self.keyed(value, path, PAIRS_KEYS, "keys of pairs", _PAIRS_EXAMPLE)
        if entry is None or any(entry.get(name) is None for name in PAIRS_KEYS):
            return Pairs()
        count = entry["count"]
        requests = self.named(entry["requests"], f"{path}.requests", "a request", MAX_REQUESTS, self.request)
        if isinstance(entry["requests"], Mapping) and len(entry["requests"]) < 2:
            self.missing(f"{path}.requests", "at least two requests, else there is nothing to bring together")
        attribute = self.text(rules.ATTRIBUTE, entry["match_attribute"], f"{path}.match_attribute")
        if not self.follows(_SET_COUNT, count, f"{path}.count") or not isinstance(count, int):
            return Pairs()
        expanded = expand_pairs(count, attribute, requests)
        for each in expanded.requests:
            self.follows(rules.NAME, each.name, f"{path}.requests")
        return expanded


def _seconds(keep: object) -> int | None:
    if keep == rules.ALWAYS:
        return None
    if not isinstance(keep, str) or not rules.KEEP.accepts(keep):
        return 0
    return int(keep[:-1]) * _SECONDS[keep[-1]]


@dataclass(frozen=True, slots=True)
class Pairs:
    """The expansion of ``pairs``: equal sets of requests whose devices belong together, such as GPU and network card.

    Kubernetes has constraints for the requests of a claim, none for single devices of a request. So each set becomes
    requests of its own, ``gpu-0`` and ``nic-0``, ``gpu-1`` and ``nic-1``, and gets its own ``matchAttribute``.

    Attributes
    ----------
    names
        What stands for several requests: ``gpu`` for ``gpu-0`` and ``gpu-1``, ``gpu/mig`` likewise.
    """

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def expand(self, names: Iterable[str]) -> tuple[str, ...]:
        """Names of requests, with groups expanded, each once."""
        return tuple(dict.fromkeys(each for name in names for each in self.names.get(name, (name,))))


def expand_pairs(count: int, match_attribute: str, requests: Iterable[DeviceRequest]) -> Pairs:
    """``count`` copies of the requests, and the constraints that keep each copy together."""
    requests = tuple(requests)
    sets = [[replace(each, name=f"{each.name}-{number}") for each in requests] for number in range(count)]
    names = {each.name: tuple(f"{each.name}-{number}" for number in range(count)) for each in requests}
    for each in requests:
        for alternative in each.first_available:
            copies = tuple(f"{name}/{alternative.name}" for name in names[each.name])
            names[f"{each.name}/{alternative.name}"] = copies
    constraints = (DeviceConstraint(match_attribute, requests=tuple(each.name for each in one_set)) for one_set in sets)
    return Pairs(tuple(each for one_set in sets for each in one_set), tuple(constraints), names)
