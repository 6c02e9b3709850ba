"""The rules about drivers. docs/reference/check.md has the same table, which a test compares."""

from __future__ import annotations

from typing import Final

from dra_spawner.profiles.findings import Level, LintRule, rules_of

_E, _W, _I = Level.ERROR, Level.WARNING, Level.INFO

DRIVER_PARAMETERS: Final = LintRule(
    "driver-parameters", (_E,), False, "Parameters that the driver refuses: unknown fields, values, combinations"
)
OTHER_DEVICE_TYPE: Final = LintRule(
    "parameters-of-another-device-type", (_E,), False, "Parameters of a kind that is for other devices, such as MIG"
)
UNREAD_PARAMETERS: Final = LintRule(
    "unread-parameters", (_W,), True, "Parameters for a driver that none of their requests is for"
)
DROPPED_ATTRIBUTE: Final = LintRule(
    "dropped-attribute", (_W,), False, "CEL that reads an attribute which newer releases do not publish"
)
NODE_TOLERATION: Final = LintRule(
    "node-toleration", (_W, _I), False, "The pod does not tolerate the usual taint of nodes with these devices"
)
BYPASSED_SHARE: Final = LintRule(
    "bypassed-share", (_W,), False, "A privileged container, or an environment variable, sees more than the share"
)
SHARE_NOT_ENFORCED: Final = LintRule(
    "share-not-enforced", (_I,), False, "Nothing keeps users of the device to their share"
)
PREPARED_FOR_ONE: Final = LintRule(
    "prepared-for-one",
    (_E, _W),
    False,
    "Several servers or containers share a claim that its driver prepares for one of them, or all servers name one",
)
MPS_BESIDE_OTHERS: Final = LintRule(
    "mps-beside-other-sharing", (_E,), False, "NVIDIA: MPS with shares, dynamic MIG or time-slicing"
)
MPS_SINGLE_USER: Final = LintRule(
    "mps-single-user", (_I,), False, "NVIDIA: MPS without multiUser, for a server that may not run as root"
)
MPS_NO_LIMIT: Final = LintRule(
    "mps-no-limit",
    (_W, _I),
    False,
    "NVIDIA: settings of MPS that limit nothing, such as 0 percent",
)
MPS_PER_PROGRAM: Final = LintRule(
    "mps-per-program", (_I,), False, "NVIDIA: MPS, whose limits count for each program, not for each server"
)
TIME_SLICING_ON_MIG: Final = LintRule(
    "time-slicing-on-mig", (_I,), False, "NVIDIA: time-slicing of MIG devices, which has no effect"
)
VFIO_BESIDE_WEBHOOK: Final = LintRule(
    "vfio-beside-webhook", (_W,), True, "NVIDIA: VfioDeviceConfig, which the driver's webhook does not know"
)
DRIVER_GATE: Final = LintRule(
    "driver-gate", (_I,), False, "NVIDIA: a strategy that a feature gate of the driver must allow"
)
COMPUTE_DOMAIN_CHANNEL: Final = LintRule(
    "compute-domain-channel", (_E,), False, "NVIDIA: a channel that comes from no template of a ComputeDomain"
)
MEMORY_AS_ZERO: Final = LintRule(
    "memory-published-as-zero", (_W,), True, "Intel: a minimum of memory, and GPUs that publish none"
)
MISSING_CAPABILITY: Final = LintRule(
    "missing-capability", (_W,), False, "Intel QAT: a container without the capability IPC_LOCK"
)
CNI_ONE_INTERFACE: Final = LintRule(
    "cni-one-interface", (_E,), False, "CNI: a configuration for more or less than one device of one server"
)
NO_INTERFACE: Final = LintRule(
    "no-interface", (_E,), True, "DRANET: an interface's settings for a device that is for RDMA alone"
)
MISSING_ATTACHMENT_DEFINITION: Final = LintRule(
    "missing-attachment-definition", (_E,), True, "SR-IOV: a NetworkAttachmentDefinition that does not exist"
)

DRIVER_RULES: Final = rules_of(globals())
