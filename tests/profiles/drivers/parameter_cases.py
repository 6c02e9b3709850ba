"""Opaque parameters that drivers accept, and parameters that they refuse."""

from __future__ import annotations

from typing import Any, Final

Json = dict[str, Any]

NV, VF = "gpu.nvidia.com", "sriovnetwork.k8snetworkplumbingwg.io"
#: First word of a case's name -> driver.
_DRIVERS: Final = {
    "nvidia": NV, "compute domain": "compute-domain.nvidia.com", "example": "gpu.example.com",
    "example net": "net.example.com", "CNI": "cni.dra.networking.x-k8s.io", "dranet": "dra.net", "sr-iov": VF,
    "amd": "gpu.amd.com",
}  # fmt: skip


def _driver(name: str) -> str:
    return _DRIVERS[name.partition(",")[0]]


def nvidia(kind: str = "GpuConfig", **fields: Any) -> Json:
    return {"apiVersion": "resource.nvidia.com/v1beta1", "kind": kind, **fields}


def mps(**settings: Any) -> Json:
    return nvidia(sharing={"strategy": "MPS", "mpsConfig": settings})


def example(**sharing: Any) -> Json:
    return {"apiVersion": "gpu.resource.example.com/v1alpha1", "kind": "GpuConfig", "sharing": sharing}


def burst(**bits: Any) -> Json:
    return {"apiVersion": "net.resource.example.com/v1alpha1", "kind": "NetConfig", "bwBurst": bits}


def domain(**fields: Any) -> Json:
    return nvidia("ComputeDomainChannelConfig", **fields)


def function(**fields: Any) -> Json:
    return {"apiVersion": f"{VF}/v1alpha1", "kind": "VfConfig", **fields}


def plugin(kind: str | None = "macvlan", **fields: Any) -> Json:
    config = {"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": kind, **fields}]}
    return {"apiVersion": "cni.networking.x-k8s.io/v1alpha1", "kind": "CNIConfig", "ifName": "net1", "config": config}


_ACCEPTED: dict[str, Json] = {
    "nvidia, nothing said": nvidia(),
    "nvidia, null is nothing said": nvidia(sharing=None),
    "nvidia, MPS that time-slicing of a MIG device ignores": nvidia(
        "MigDeviceConfig", sharing={"strategy": "TimeSlicing", "mpsConfig": {"defaultActiveThreadPercentage": 5}}
    ),
    "nvidia, time-slicing by default": nvidia(sharing={"strategy": "TimeSlicing"}),
    "nvidia, MPS without settings": nvidia(sharing={"strategy": "MPS"}),
    "nvidia, MPS at its limits": mps(defaultActiveThreadPercentage=0, defaultPinnedDeviceMemoryLimit="1Mi"),
    "nvidia, MPS in full": mps(
        defaultActiveThreadPercentage=100,
        defaultPerDevicePinnedMemoryLimit={"0": "10Gi", "GPU-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c": 1048576},
        multiUser=True,
    ),
    "nvidia, a MIG device": nvidia("MigDeviceConfig", sharing={"strategy": "TimeSlicing"}),
    "nvidia, passthrough by default": nvidia("VfioDeviceConfig"),
    "nvidia, passthrough": nvidia("VfioDeviceConfig", iommu={"backendPolicy": "PreferIommuFD"}),
    "nvidia, a placeholder": mps(defaultPinnedDeviceMemoryLimit="{memory}"),
    "compute domain, in full": domain(domainID="5e2b8f3e", allocationMode="All"),
    "example, in full": example(strategy="SpacePartitioning", spacePartitioningConfig={"partitionCount": 0}),
    "example net, in full": burst(ingressBurst=8, egressBurst=0),
    "CNI, a list of plugins": plugin(master="eth0", mode="bridge", ipam={"type": "dhcp", "anything": [1]}),
    "CNI, ipvlan": plugin("ipvlan", master="eth0", mode="l3s", mtu=1500),
    "CNI, a VLAN": plugin("vlan", master="eth0", vlanId=42),
    "CNI, a VLAN of the device": plugin("vlan", vlanId=42),
    "CNI, a VLAN of each user": plugin("vlan", master="eth0", vlanId="{vlan}"),
    "CNI, a plugin that is not known": plugin("my-own", whatever={"a": 1}),
    "CNI, one plugin without a list": plugin()
    | {"config": {"cniVersion": "0.3.1", "name": "n", "type": "macvlan", "master": "eth0"}},
    "CNI, as its documentation spells it": plugin() | {"kind": "CNI"},
    "CNI, another spelling of the group": plugin() | {"apiVersion": "cni.dra.networking.x-k8s.io/v1alpha1"},
    "dranet, nothing": {},
    "dranet, addresses of both kinds": {"interface": {"addresses": ["10.0.0.1/8", "fd00::1/64"]}},
    "dranet, dhcp": {"interface": {"dhcp": True, "addresses": []}},
    "dranet, no dhcp but addresses": {"interface": {"dhcp": False, "addresses": ["10.0.0.1/8"]}},
    "dranet, the longest name": {"interface": {"name": "a" * 15}},
    "dranet, the smallest mtu": {"interface": {"mtu": 68}},
    "dranet, arp": {"interface": {"arpIgnore": 8, "arpAnnounce": 2}},
    "dranet, rules without vrf": {"rules": [{"priority": 32767, "source": "10.0.0.0/8", "table": 100}]},
    "dranet, a route of its link": {"routes": [{"destination": "10.0.0.0/8", "scope": 253}]},
    "sr-iov, in full": function(driver="vfio-pci", addVhostMount=True, ifName="net1", netAttachDefName="vlan-42"),
    "sr-iov, the kernel's driver": function(driver=""),
    "sr-iov, back to the kernel's": function(driver="default"),
    "amd, nothing said": {"apiVersion": "gpu.resource.amd.com/v1alpha1", "kind": "GpuConfig"},
}

#: Name -> parameters, path of the problem, the found value, and words of the allowed values.
_REFUSED: dict[str, tuple[Json, str, str, str]] = {
    "nvidia, no kind": ({"sharing": {}}, "", "", "GpuConfig of resource.nvidia.com/v1beta1 or MigDeviceConfig"),
    "nvidia, another kind": (nvidia("GPUConfig"), "", "'GPUConfig of resource.nvidia.com/v1beta1'", "GpuConfig"),
    "nvidia, an older version": (
        {"apiVersion": "resource.nvidia.com/v1alpha1", "kind": "GpuConfig"},
        "",
        "'GpuConfig of resource.nvidia.com/v1alpha1'",
        "v1beta1",
    ),
    "nvidia, an unknown field": (nvidia(shares=2), ".shares", "'shares'", "sharing"),
    "nvidia, case matters": (nvidia(Sharing={}), ".Sharing", "'Sharing'", "sharing"),
    "nvidia, no strategy": (nvidia(sharing={}), ".sharing.strategy", "", "TimeSlicing or MPS"),
    "nvidia, another strategy": (nvidia(sharing={"strategy": "Mps"}), ".sharing.strategy", "'Mps'", "MPS"),
    "nvidia, settings of the other strategy": (
        nvidia(sharing={"strategy": "MPS", "timeSlicingConfig": {"interval": "Long"}}),
        ".sharing.timeSlicingConfig",
        "timeSlicingConfig",
        "no timeSlicingConfig beside strategy MPS",
    ),
    "nvidia, null is no interval": (
        nvidia(sharing={"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": None}}),
        ".sharing.timeSlicingConfig.interval",
        "",
        "the driver's plugin ends",
    ),
    "nvidia, the reverse": (
        nvidia(sharing={"strategy": "TimeSlicing", "mpsConfig": {}}),
        ".sharing.mpsConfig",
        "mpsConfig",
        "no mpsConfig",
    ),
    "nvidia, settings of nothing": (
        nvidia(sharing={"strategy": "TimeSlicing", "timeSlicingConfig": {}}),
        ".sharing.timeSlicingConfig.interval",
        "",
        "Default, Short, Medium or Long",
    ),
    "nvidia, another interval": (
        nvidia(sharing={"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "30ms"}}),
        ".sharing.timeSlicingConfig.interval",
        "'30ms'",
        "Default, Short, Medium or Long",
    ),
    "nvidia, more than all": (
        mps(defaultActiveThreadPercentage=101),
        ".sharing.mpsConfig.defaultActiveThreadPercentage",
        "101",
        "from 0 to 100",
    ),
    "nvidia, a percentage as text": (
        mps(defaultActiveThreadPercentage="50"),
        ".sharing.mpsConfig.defaultActiveThreadPercentage",
        "'50'",
        "from 0 to 100",
    ),
    "nvidia, less than a mebibyte": (
        mps(defaultPinnedDeviceMemoryLimit="1023Ki"),
        ".sharing.mpsConfig.defaultPinnedDeviceMemoryLimit",
        "'1023Ki'",
        "at least 1Mi",
    ),
    "nvidia, no quantity": (
        mps(defaultPinnedDeviceMemoryLimit="10GB"),
        ".sharing.mpsConfig.defaultPinnedDeviceMemoryLimit",
        "'10GB'",
        "at least 1Mi",
    ),
    "nvidia, a limit of one device": (
        mps(defaultPerDevicePinnedMemoryLimit={"0": "1Ki"}),
        ".sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit.0",
        "'1Ki'",
        "at least 1Mi",
    ),
    "nvidia, a limit of no device": (
        mps(defaultPerDevicePinnedMemoryLimit={"gpu-0": "1Gi"}),
        ".sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit.gpu-0",
        "'gpu-0'",
        "index or UUID",
    ),
    "nvidia, no flag": (mps(multiUser="yes"), ".sharing.mpsConfig.multiUser", "'yes'", "true or false"),
    "nvidia, time slices of MIG": (
        nvidia("MigDeviceConfig", sharing={"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}}),
        ".sharing.timeSlicingConfig",
        "'timeSlicingConfig'",
        "strategy, mpsConfig",
    ),
    "nvidia, another backend": (
        nvidia("VfioDeviceConfig", iommu={"backendPolicy": "Legacy"}),
        ".iommu.backendPolicy",
        "'Legacy'",
        "LegacyOnly or PreferIommuFD",
    ),
    "compute domain, none": (domain(), ".domainID", "", "uid of a ComputeDomain"),
    "compute domain, an empty one": (domain(domainID=""), ".domainID", "''", "uid of a ComputeDomain"),
    "compute domain, another mode": (
        domain(domainID="a", allocationMode="Both"),
        ".allocationMode",
        "'Both'",
        "Single, All",
    ),
    "example, nothing": (
        {"apiVersion": "gpu.resource.example.com/v1alpha1", "kind": "GpuConfig"},
        ".sharing",
        "",
        "a value",
    ),
    "example, a strategy without settings": (
        example(strategy="TimeSlicing"),
        ".sharing.timeSlicingConfig",
        "",
        "the settings of strategy TimeSlicing",
    ),
    "example, fewer than none": (
        example(strategy="SpacePartitioning", spacePartitioningConfig={"partitionCount": -1}),
        ".sharing.spacePartitioningConfig.partitionCount",
        "-1",
        "from 0",
    ),
    "example net, too much": (
        burst(ingressBurst=8 * (2**32 - 1), egressBurst=0),
        ".bwBurst.ingressBurst",
        str(8 * (2**32 - 1)),
        "less than 4 GiB",
    ),
    "CNI, no interface": (plugin() | {"ifName": None}, ".ifName", "", "at most 15"),
    "CNI, too long a name": (plugin() | {"ifName": "a" * 16}, ".ifName", repr("a" * 16), "at most 15"),
    "CNI, no configuration": (plugin() | {"config": None}, ".config", "", "a value"),
    "CNI, no version": (plugin() | {"config": {"name": "n", "type": "bridge"}}, ".config.cniVersion", "", "1.0.0"),
    "CNI, no plugin": (plugin() | {"config": {"name": "n", "cniVersion": "1.0.0"}}, ".config.plugins", "", "macvlan"),
    "CNI, none of the plugins": (
        plugin() | {"config": {"name": "n", "cniVersion": "1.0.0", "plugins": []}},
        ".config.plugins",
        "[]",
        "at least one",
    ),
    "CNI, a plugin without type": (plugin(None, master="eth0"), ".config.plugins[0].type", "", "a name"),
    "CNI, a mode of ipvlan": (plugin(mode="l2"), ".config.plugins[0].mode", "'l2'", "bridge, private, vepa"),
    "CNI, a mode of macvlan": (plugin("ipvlan", mode="bridge"), ".config.plugins[0].mode", "'bridge'", "l2, l3"),
    "CNI, a VLAN without number": (plugin("vlan", master="eth0"), ".config.plugins[0].vlanId", "", "0 to 4094"),
    "CNI, too great a VLAN": (
        plugin("vlan", master="eth0", vlanId=4095),
        ".config.plugins[0].vlanId",
        "4095",
        "0 to 4094",
    ),
    "CNI, a VLAN as text": (
        plugin("vlan", master="eth0", vlanId="42"),
        ".config.plugins[0].vlanId",
        "'42'",
        "0 to 4094",
    ),
    "dranet, a kind": ({"kind": "NetworkConfig"}, ".kind", "'kind'", "neither apiVersion nor kind"),
    "dranet, a version": ({"apiVersion": "dra.net/v1"}, ".apiVersion", "'apiVersion'", "neither apiVersion"),
    "dranet, too long a name": ({"interface": {"name": "a" * 16}}, ".interface.name", repr("a" * 16), "at most 15"),
    "dranet, a slash in a name": ({"interface": {"name": "net/1"}}, ".interface.name", "'net/1'", "letters"),
    "dranet, a name that is none": ({"interface": {"name": ".."}}, ".interface.name", "'..'", "letters"),
    "dranet, dhcp and addresses": (
        {"interface": {"dhcp": True, "addresses": ["10.0.0.1/8"]}},
        ".interface.addresses",
        "['10.0.0.1/8']",
        "no addresses beside dhcp",
    ),
    "dranet, an address without prefix": (
        {"interface": {"addresses": ["10.0.0.1"]}},
        ".interface.addresses[0]",
        "'10.0.0.1'",
        "prefix",
    ),
    "dranet, too small an mtu": ({"interface": {"mtu": 67}}, ".interface.mtu", "67", "from 68"),
    "dranet, an mtu as text": ({"interface": {"mtu": "1500"}}, ".interface.mtu", "'1500'", "from 68"),
    "dranet, no hardware address": (
        {"interface": {"hardwareAddr": "00:11:22"}},
        ".interface.hardwareAddr",
        "'00:11:22'",
        "hardware address",
    ),
    "dranet, a size of nothing": ({"interface": {"gsoMaxSize": 0}}, ".interface.gsoMaxSize", "0", "above zero"),
    "dranet, arp": ({"interface": {"arpIgnore": 4}}, ".interface.arpIgnore", "4", "0, 1, 2, 3 or 8"),
    "dranet, a vrf without name": ({"interface": {"vrf": {}}}, ".interface.vrf.name", "", "a name"),
    "dranet, a table of Linux": (
        {"interface": {"vrf": {"name": "v", "table": 254}}},
        ".interface.vrf.table",
        "254",
        "253 to 255",
    ),
    "dranet, rules with vrf": (
        {"interface": {"vrf": {"name": "v"}}, "rules": [{"table": 1}]},
        ".rules",
        "[{'table': 1}]",
        "no rules beside interface.vrf",
    ),
    "dranet, a route without gateway": (
        {"routes": [{"destination": "10.0.0.0/8"}]},
        ".routes[0].gateway",
        "",
        "scope 253",
    ),
    "dranet, a route of another scope": (
        {"routes": [{"destination": "10.0.0.0/8", "scope": 254}]},
        ".routes[0].scope",
        "254",
        "253 (link)",
    ),
    "dranet, a gateway of another family": (
        {"routes": [{"destination": "10.0.0.0/8", "gateway": "fd00::1"}]},
        ".routes[0].gateway",
        "'fd00::1'",
        "IPv4",
    ),
    "dranet, a rule of two families": (
        {"rules": [{"source": "fd00::/8", "destination": "10.0.0.0/8"}]},
        ".rules[0].source",
        "'fd00::/8'",
        "IPv4",
    ),
    "dranet, a neighbour without address": (
        {"neighbors": [{"destination": "10.0.0.1"}]},
        ".neighbors[0].hardwareAddr",
        "",
        "hardware address",
    ),
    "dranet, a feature that is no flag": (
        {"ethtool": {"features": {"tso": "off"}}},
        ".ethtool.features.tso",
        "'off'",
        "true or false",
    ),
    "dranet, a list that is none": ({"routes": {}}, ".routes", "{}", "a list"),
    "dranet, an interface that is none": ({"interface": []}, ".interface", "[]", "a mapping"),
    "sr-iov, a VLAN": (function(vlan=42), ".vlan", "'vlan'", "a VLAN, trust, spoofchk, rates and addresses stand in"),
    "sr-iov, another driver": (function(driver="vfio pci"), ".driver", "'vfio pci'", "vfio-pci"),
    "amd, a field": (
        {"apiVersion": "gpu.resource.amd.com/v1alpha1", "kind": "GpuConfig", "sharing": {}},
        ".sharing",
        "'sharing'",
        "no field at all",
    ),
}

#: Name -> driver and parameters; and of problems path, found value, and words of the allowed values.
ACCEPTED = {name: (_driver(name), parameters) for name, parameters in _ACCEPTED.items()}
REFUSED = {name: (_driver(name), *row) for name, row in _REFUSED.items()}
