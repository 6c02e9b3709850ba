"""The rules by name: what each is about, and all rules there are, those of drivers among them."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from dra_spawner.common.project_links import where
from dra_spawner.profiles.drivers.registry import driver_rules
from dra_spawner.profiles.findings import Level, LintRule, rules_of
from dra_spawner.profiles.intel_gas.rules import INTEL_GAS_RULES
from dra_spawner.profiles.lint.hub_rules import HUB_RULES
from dra_spawner.profiles.lint.vlan_findings import VLAN_RULES

_E, _W, _I = Level.ERROR, Level.WARNING, Level.INFO

PROFILE_LANGUAGE: Final = LintRule(
    "profile-language",
    (_E,),
    False,
    "What the language refuses: keys, values, sizes that Kubernetes miscounts, CEL that does not compile",
)
PROFILE_FUNCTION: Final = LintRule(
    "profile-function", (_I,), False, "A profile list that is a function: it is checked at each spawn only"
)
FREE_TEXT: Final = LintRule(
    "free-text", (_I,), False, "A choice of free text: what users type is checked at each spawn only"
)
API_VERSION: Final = LintRule("api-version", (_E,), True, "Kubernetes before 1.34 has no resource.k8s.io/v1")
KUBERNETES_DEFECT: Final = LintRule(
    "kubernetes-defect",
    (_W,),
    True,
    "A known defect of this version of Kubernetes that the choice meets, and the version that mends it",
)
FIELD_DROPPED: Final = LintRule(
    "field-dropped",
    (_E, _W),
    True,
    "A field that this API server drops, or is likely to drop, because a feature gate is off",
)
DEVICE_CLASS: Final = LintRule(
    "device-class",
    (_E, _W),
    True,
    "A device class that the cluster does not have",
)
SELECTOR_FAILS: Final = LintRule(
    "selector-fails",
    (_E, _W),
    True,
    "CEL that fails on a device, which most often lacks what is read: the scheduler gives the pod up on every node; or "
    "that the API server refuses",
)
UNGUARDED: Final = LintRule(
    "unguarded-attribute",
    (_I,),
    False,
    "CEL that reads an attribute or capacity without has() or in: fatal where a device lacks it",
)
UNPUBLISHED: Final = LintRule(
    "unpublished-attribute",
    (_W,),
    True,
    "CEL that reads an attribute or capacity which no device of the driver publishes",
)
QUALIFIED_KEY: Final = LintRule(
    "qualified-key", (_E,), False, 'CEL that looks up "domain/name" where the domain comes first and the name after'
)
UNKNOWN_CAPACITY: Final = LintRule(
    "unknown-capacity",
    (_E, _W),
    True,
    "A capacity that no device in question publishes by just this name: the pod would wait in silence",
)
SHARE_TOO_LARGE: Final = LintRule(
    "share-too-large",
    (_E, _W),
    True,
    "A share that no device in question gives, after rounding as its requestPolicy says",
)
SHARE_ROUNDED: Final = LintRule(
    "share-rounded", (_I,), True, "A share that is rounded up: what will really be reserved"
)
SHARE_REMAINDER: Final = LintRule(
    "share-remainder", (_I,), True, "A share that is a little too large: what is left of a device is nearly one more"
)
WHOLE_CAPACITY: Final = LintRule(
    "whole-capacity",
    (_W,),
    True,
    "A shareable device of which all of a capacity is taken because nothing is said of it",
)
WHOLE_DEVICE: Final = LintRule(
    "whole-device",
    (_W,),
    True,
    "A capacity asked of devices that cannot be shared: a filter, and the whole device is taken",
)
DIFFERENT_CONFIG: Final = LintRule(
    "different-config",
    (_W,),
    True,
    "Choices that can meet on one shareable device with different parameters: the second may fail there",
)
NO_COMMON_VALUE: Final = LintRule(
    "no-common-value",
    (_E, _W),
    True,
    "match_attribute between devices that never have a value in common on any node, or lack the attribute",
)
TOO_FEW_ALIKE: Final = LintRule(
    "too-few-alike", (_E, _W), True, "match_attribute over more devices than share any value on a node"
)
ADMIN_ACCESS: Final = LintRule(
    "admin-access",
    (_E, _I),
    False,
    "Access for administration: needs a label of the namespace, and is for administrators of the hub only",
)
ALTERNATIVES: Final = LintRule(
    "alternatives", (_E,), False, "A raw spec with over eight alternatives, or with adminAccess in one"
)
CONFIG_FOR_ALL: Final = LintRule(
    "config-for-all-alternatives",
    (_W,),
    False,
    "Parameters for a request whose alternatives are of different classes: they are for each of them",
)
NEVER_FITS: Final = LintRule(
    "never-fits", (_E, _W), True, "No node could have these devices, even if nothing were in use"
)
NO_DEVICES: Final = LintRule("no-devices", (_W,), True, "A device class of which nothing is published now")

SAME_HARDWARE: Final = LintRule(
    "same-hardware-twice",
    (_W,),
    True,
    "Devices that are published twice without shared counters, such as a GPU beside its slices",
)
EXTENDED_RESOURCE: Final = LintRule(
    "extended-resource", (_W,), True, "An extended resource for which no device class stands and which no node has"
)
EXTENDED_BESIDE_CLAIMS: Final = LintRule(
    "extended-beside-claims",
    (_W,),
    True,
    "Claims beside an extended resource that some node has from a device plugin: there the pod never starts",
)

RULES: Final = rules_of(globals())


def all_rules() -> tuple[LintRule, ...]:
    """Every rule: of this package, about drivers, about VLANs, GPU Aware Scheduling of Intel GPUs, and hubs."""
    return (*RULES, *driver_rules(), *VLAN_RULES, *INTEL_GAS_RULES, *HUB_RULES)


def unknown_rules(names: Iterable[str]) -> tuple[str, ...]:
    """A sentence for each name that no rule has.

    Raises
    ------
    DriverNotUsable
        If an installed package adds a driver that cannot be used.
    """
    known = [rule.name for rule in all_rules()]
    sentences = []
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, 1) or [
                f"{where('docs/reference/check.md')} has their names, such as {known[0]}"
            ]
            sentences.append(f"there is no rule {name}; {'did you mean ' if near[0] in known else ''}{near[0]}")
    return tuple(sentences)
