"""DeviceTaintRules: one taint for all devices that a rule selects (KEP-5055, ``resource.k8s.io`` ``DeviceTaintRule``).

kube-scheduler's tracker of slices (``k8s.io/dynamic-resource-allocation/resourceslice/tracker``) adds the taint to the
devices as if their driver had published it, and so does this module.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from dra_spawner.dra.features import Quirks
from dra_spawner.dra.model.decoding import Reader
from dra_spawner.dra.model.devices import DeviceId, PoolId, ResourceSlice, Taint

_GONE = ("deviceClassName", "selectors")
"""Fields of the selector in Kubernetes 1.34 (``v1alpha3``, off by default); later releases do not have them."""


@dataclass(frozen=True, slots=True)
class DeviceTaintRule:
    """A rule: which devices it taints, and how."""

    name: str
    taint: Taint
    driver: str | None = None
    """None for any, as `pool` and `device`."""
    pool: str | None = None
    device: str | None = None
    has_selector: bool = True
    """Whether the rule has a selector; an empty one selects all devices. See `Quirks.rules_without_selector`."""

    @classmethod
    def from_json(cls, obj: object) -> DeviceTaintRule:
        """Decode the API object; all API versions that have it since 1.35 have these fields.

        Raises
        ------
        ObjectError
            With the path of the first field that is wrong.
        """
        reader = Reader.root(obj, "DeviceTaintRule")
        name = reader.required_child("metadata").required_text("name")
        spec = reader.required_child("spec")
        taint = spec.required_child("taint")
        selector = spec.child("deviceSelector")
        for field in _GONE:
            if selector is not None and selector.has(field):
                selector.fail(field, "is a field of Kubernetes 1.34 alone; select by driver, pool and device")
        return cls(
            name=name,
            taint=Taint(taint.required_text("key"), taint.text("value"), taint.required_text("effect")),
            driver=selector.optional_text("driver") if selector is not None else None,
            pool=selector.optional_text("pool") if selector is not None else None,
            device=selector.optional_text("device") if selector is not None else None,
            has_selector=selector is not None,
        )

    def may_select(self, pool_id: PoolId) -> bool:
        """Whether it may select a device of a pool."""
        return self.driver in (None, pool_id.driver) and self.pool in (None, pool_id.pool)

    def selects(self, device: DeviceId) -> bool:
        """Whether it selects a device; a rule without a selector selects none, as the API says."""
        return (
            self.has_selector
            and self.may_select(PoolId(device.driver, device.pool))
            and self.device in (None, device.device)
        )


def applied(rules: Mapping[str, DeviceTaintRule], quirks: Quirks) -> list[DeviceTaintRule]:
    """The rules that the scheduler applies, by name; its own order is random, and nothing depends on it.

    Each may be given to `with_rules`, where one without a selector selects every device.
    """
    in_order = (rules[name] for name in sorted(rules))
    return [rule for rule in in_order if rule.has_selector or quirks.rules_without_selector]


def with_rules(item: ResourceSlice, rules: Collection[DeviceTaintRule]) -> ResourceSlice:
    """The slice as the scheduler sees it: its devices with the taints of rules; the same one if no rule selects any."""
    names = frozenset(item.device_names)
    selecting = [
        rule for rule in rules if rule.may_select(item.pool_id) and (rule.device is None or rule.device in names)
    ]
    if not selecting or not names:
        return item
    devices = []
    for device in item.devices:
        taints = [rule.taint for rule in selecting if rule.device in (None, device.id.device)]
        devices.append(replace(device, taints=(*device.taints, *taints)) if taints else device)
    return replace(item, devices=tuple(devices))
