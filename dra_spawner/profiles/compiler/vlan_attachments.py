"""Network interfaces in VLANs: from ``vlan`` on a request to the parameters of its device's driver.

Each driver is told in its own way: the CNI driver by a CNI configuration in the claim's parameters; the SR-IOV driver
by the name of a NetworkAttachmentDefinition, of which there is one for each VLAN; a driver that is not known here by
parameters that the administrator writes, with ``{vlan}`` in them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from dra_spawner.common.json_types import JsonObject
from dra_spawner.names import CNI_API, CNI_DRIVER, CNI_GROUP, CNI_VLAN_CLASS
from dra_spawner.profiles.compiler.claims import Companion, DeviceClaim, DeviceConfig, DeviceRequest, VlanAttachment
from dra_spawner.profiles.syntax import rules, templates
from dra_spawner.profiles.syntax.keys import MAX_CONFIGS, VLAN_KEYS
from dra_spawner.profiles.syntax.reading import ValueReader

SRIOV = "sriovnetwork.k8snetworkplumbingwg.io"
DRANET = "dra.net"

#: Classes that these drivers' installations and documentation use.
_DRIVER_OF_CLASS: Mapping[str, str] = {
    CNI_GROUP: CNI_DRIVER,
    CNI_VLAN_CLASS: CNI_DRIVER,
    "sriovnetwork.k8snetworkplumbingwg.io": SRIOV,
    **dict.fromkeys(("dra.net", "dranet", "dranet.net", "multinic", "rdma-net"), DRANET),
    **dict.fromkeys(("efa.networking.k8s.aws", "erdma.alibaba.dra.net"), DRANET),
}
#: Further keys of each known driver; any other driver has ``parameters``.
_KEYS_OF: Mapping[str, tuple[str, ...]] = {
    CNI_DRIVER: ("type", "master", "mode", "mtu", "interface", "ipam"),
    SRIOV: ("interface", "ipam"),
}
_MODES = {
    "vlan": (),
    "macvlan": ("bridge", "private", "vepa", "passthru"),
    "ipvlan": ("l2", "l3", "l3s"),
}
_OWN_VLAN = "{vlan}"
_CNI_VERSION = "1.0.0"
#: An interface's name has at most 15 characters, a sub-interface's ends with a dot and up to four digits.
_LONGEST_MASTER = 10
_EXAMPLE = 'a mapping such as {id: "{vlan}"} or {id: 42, master: eth1}'
_DRANET_HAS_NONE = (
    "another driver: dra.net moves an interface as it is and sets no VLAN; ask for one that is in the VLAN already "
    "(where), and set its addresses by config"
)


class VlanReader(ValueReader):
    """Reads ``vlan`` of requests."""

    def vlan(self, value: object, path: str, device_class: object, single: bool) -> VlanAttachment | None:
        """One interface; ``null`` is none.

        Parameters
        ----------
        device_class
            Of the request; it may tell the driver.
        single
            Whether the request is for one device.
        """
        if value is None:
            return None
        entry = self.keyed(value, path, VLAN_KEYS, "keys of vlan", _EXAMPLE)
        if entry is None or not self.follows(rules.VLAN_ID, entry.get("id"), f"{path}.id"):
            return None
        if not single:
            self.refuse(path, dict(entry), "vlan on a request for one device: each interface is a request of its own")
        driver = self._driver(entry, path, device_class)
        known = _KEYS_OF.get(driver, ("parameters",))
        for key in entry:
            if key in VLAN_KEYS and key not in ("id", "driver", *known) and entry[key] is not None and driver:
                self.refuse(f"{path}.{key}", entry[key], f"with driver {driver}: id, driver, {', '.join(known)}")
        if driver and driver not in _KEYS_OF and driver != DRANET and entry.get("parameters") is None:
            self.missing(f"{path}.parameters", f"the configuration for driver {driver}, with {{vlan}} in it")
        number = entry["id"]
        return self._plugin(
            VlanAttachment(
                vlan=number if isinstance(number, int) else None,
                driver=driver,
                kind=self._text(entry, path, "type", rules.VLAN_KIND) or "vlan",
                master=self._text(entry, path, "master", rules.INTERFACE),
                mode=self._text(entry, path, "mode", rules.VLAN_MODE),
                mtu=self._mtu(entry.get("mtu"), f"{path}.mtu"),
                interface=self._text(entry, path, "interface", rules.INTERFACE),
                ipam=self._template(entry.get("ipam"), f"{path}.ipam"),
                parameters=self._template(entry.get("parameters"), f"{path}.parameters"),
            ),
            path,
        )

    def _driver(self, entry: Mapping[str, object], path: str, device_class: object) -> str:
        found = entry.get("driver")
        if found is None:
            found = _DRIVER_OF_CLASS.get(device_class) if isinstance(device_class, str) else None
            if found is None:
                self.missing(f"{path}.driver", f"the driver of class {device_class}, such as {CNI_DRIVER}")
                return ""
        if found == DRANET:
            self.refuse(f"{path}.driver" if entry.get("driver") else path, found, _DRANET_HAS_NONE)
        return self.text(rules.DRIVER, found, f"{path}.driver")

    def _text(self, entry: Mapping[str, object], path: str, key: str, rule: rules.ValueRule) -> str:
        return "" if entry.get(key) is None else self.text(rule, entry[key], f"{path}.{key}")

    def _mtu(self, value: object, path: str) -> int:
        return value if value is not None and self.follows(rules.MTU, value, path) and isinstance(value, int) else 0

    def _template(self, value: object, path: str) -> JsonObject | None:
        if value is None:
            return None
        before = len(self.problems)
        copied = self.json(value, path) if self.mapping(value, path, "a mapping") is not None else None
        if len(self.problems) > before or not isinstance(copied, dict):
            return {}
        self.problems += templates.template_problems(copied, path)
        return copied

    def _plugin(self, attachment: VlanAttachment, path: str) -> VlanAttachment:
        if attachment.mode and attachment.mode not in _MODES[attachment.kind]:
            modes = ", ".join(_MODES[attachment.kind]) or "no mode"
            self.refuse(f"{path}.mode", attachment.mode, f"with type {attachment.kind}: {modes}")
        if attachment.kind != "vlan" and attachment.driver == CNI_DRIVER:
            if not attachment.master:
                self.missing(f"{path}.master", f"the interface on whose sub-interface the {attachment.kind} is put")
            elif len(attachment.master) > _LONGEST_MASTER:
                self.refuse(
                    f"{path}.master", attachment.master, f"at most {_LONGEST_MASTER} characters with {attachment.kind}"
                )
        return attachment

    def with_interfaces(self, claims: tuple[DeviceClaim, ...], path: str) -> tuple[DeviceClaim, ...]:
        """Give each VLAN of a pod an interface name of its own; the alternatives of a request share one."""
        used: set[str] = set()
        for claim in claims:
            configs = len(claim.config) + sum(1 for request in claim.requests for _ in vlans_of(request))
            if configs > MAX_CONFIGS:
                self.refuse(f"{path}.{claim.name}", f"{configs} of config and vlan", f"at most {MAX_CONFIGS} in all")
            for request in claim.requests:
                names = {attachment.interface for _, attachment in vlans_of(request) if attachment.interface}
                for name in sorted(names & used):
                    self.refuse(
                        f"{path}.{claim.name}", name, f"an interface of its own for each VLAN of a pod ({name})"
                    )
                used |= names
        if not any(True for claim in claims for request in claim.requests for _ in vlans_of(request)):
            return claims
        free = (name for number in range(1, 10_000) if (name := f"net{number}") not in used)
        return tuple(
            replace(claim, requests=tuple(_with_interface(request, free) for request in claim.requests))
            for claim in claims
        )


def vlans_of(request: DeviceRequest) -> Iterator[tuple[str, VlanAttachment]]:
    """The interfaces of a request, each with the name by which a configuration refers to it."""
    if request.vlan is not None and not request.first_available:
        yield request.name, request.vlan
    for alternative in request.first_available:
        if alternative.vlan is not None:
            yield f"{request.name}/{alternative.name}", alternative.vlan


def map_vlans(request: DeviceRequest, change: Callable[[VlanAttachment], VlanAttachment]) -> DeviceRequest:
    """A request with each of its interfaces changed."""
    alternatives = tuple(map_vlans(alternative, change) for alternative in request.first_available)
    vlan = change(request.vlan) if request.vlan is not None else None
    return replace(request, vlan=vlan, first_available=alternatives)


def _with_interface(request: DeviceRequest, free: Iterator[str]) -> DeviceRequest:
    if all(attachment.interface for _, attachment in vlans_of(request)):
        return request
    name = next(free)
    return map_vlans(
        request, lambda attachment: attachment if attachment.interface else replace(attachment, interface=name)
    )


# Configurations of drivers


def vlan_configs(requests: Iterable[DeviceRequest]) -> tuple[DeviceConfig, ...]:
    """The configurations that the interfaces of a claim's requests come to."""
    return tuple(
        DeviceConfig(attachment.driver, _parameters(attachment), (reference,))
        for request in requests
        for reference, attachment in vlans_of(request)
    )


def vlan_companions(requests: Iterable[DeviceRequest]) -> tuple[Companion, ...]:
    """The NetworkAttachmentDefinitions that they need; one for all servers in the same VLAN with the same addresses."""
    attachments = [
        attachment for request in requests for _, attachment in vlans_of(request) if attachment.driver == SRIOV
    ]
    manifests = {_attachment_name(attachment): _attachment_definition(attachment) for attachment in attachments}
    # The name has dots, so that it differs from every companion's name in a profile.
    return tuple(
        Companion(f"vlan.{number}", "network-attachment-definitions", manifest)
        for number, manifest in enumerate(manifests.values())
    )


def _parameters(attachment: VlanAttachment) -> JsonObject:
    if attachment.driver == CNI_DRIVER:
        return {
            "apiVersion": CNI_API,
            "kind": "CNIConfig",
            "ifName": attachment.interface,
            "config": {
                "cniVersion": _CNI_VERSION,
                "name": f"vlan-{_number(attachment)}",
                "plugins": [_cni_plugin(attachment)],
            },
        }
    if attachment.driver == SRIOV:
        return {
            "apiVersion": "sriovnetwork.k8snetworkplumbingwg.io/v1alpha1",
            "kind": "VfConfig",
            "ifName": attachment.interface,
            "netAttachDefName": _attachment_name(attachment),
        }
    return attachment.parameters or {}


def _cni_plugin(attachment: VlanAttachment) -> JsonObject:
    plugin: JsonObject = {"type": attachment.kind}
    if attachment.kind == "vlan":
        plugin |= {"master": attachment.master} if attachment.master else {}
        plugin["vlanId"] = _number(attachment)
    else:
        plugin["master"] = f"{attachment.master}.{_number(attachment)}"
        plugin |= {"mode": attachment.mode} if attachment.mode else {}
    plugin |= {"mtu": attachment.mtu} if attachment.mtu else {}
    return {**plugin, "ipam": attachment.ipam or {}}


def _number(attachment: VlanAttachment) -> int | str:
    return _OWN_VLAN if attachment.vlan is None else attachment.vlan


def _attachment_name(attachment: VlanAttachment) -> str:
    # What differs in anything else than the VLAN is another object.
    content = json.dumps(attachment.ipam or {}, sort_keys=True)
    return f"vlan-{_number(attachment)}-{hashlib.sha256(content.encode()).hexdigest()[:8]}"


def _attachment_definition(attachment: VlanAttachment) -> JsonObject:
    name = _attachment_name(attachment)
    config = {
        "cniVersion": _CNI_VERSION,
        "name": name,
        "type": "sriov",
        "vlan": _number(attachment),
        "ipam": attachment.ipam or {},
    }
    return {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": name},
        "spec": {"config": json.dumps(config)},
    }
