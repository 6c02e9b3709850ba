"""Network interfaces made by CNI plugins (macvlan, ipvlan, vlan …), whose configuration the parameters carry.

Source: ``apis`` and ``docs`` of cni-dra-driver, which is a design with little code so far. Its types have the kind
CNIConfig, its documentation CNI, and of the group two spellings are in use; all are accepted here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dra_spawner import names
from dra_spawner.dra.preparation import PreparedFor
from dra_spawner.profiles.drivers.common_rules import COMMON_RULES
from dra_spawner.profiles.drivers.driver import Driver, RuleInput
from dra_spawner.profiles.drivers.driver_rules import CNI_ONE_INTERFACE
from dra_spawner.profiles.drivers.parameters import TEXT, AnyJson, Field, Fields, Listed, Shape, has_variable
from dra_spawner.profiles.drivers.shipped.networks import INTERFACE_NAME
from dra_spawner.profiles.drivers.vocabulary import KnownClass, ParameterKind
from dra_spawner.profiles.findings import Finding
from dra_spawner.profiles.syntax.problems import Problem, shown
from dra_spawner.profiles.syntax.rules import ValueRule, one_of, text, whole_number

_VERSION = text("a version of CNI such as 1.0.0", r"[0-9]+\.[0-9]+\.[0-9]+", 20)
_MTU = whole_number("a whole number", 0, 2**31 - 1)
_VLAN = whole_number("a VLAN's number from 0 to 4094", 0, 4094)
_NOT_EMPTY = text("a name", r"(?s:.+)", 253)

#: Type of plugin -> its own fields, and which of them must be there.
_PLUGINS: Mapping[str, Mapping[str, tuple[ValueRule, bool]]] = {
    "macvlan": {
        "master": (INTERFACE_NAME, False),
        "mode": (one_of("bridge, private, vepa or passthru", "bridge", "private", "vepa", "passthru"), False),
        "mtu": (_MTU, False),
    },
    "ipvlan": {
        "master": (INTERFACE_NAME, False),
        "mode": (one_of("l2, l3 or l3s", "l2", "l3", "l3s"), False),
        "mtu": (_MTU, False),
    },
    "vlan": {"master": (INTERFACE_NAME, False), "vlanId": (_VLAN, True), "mtu": (_MTU, False)},
}


def _plugin_fits(plugin: Mapping[str, object], path: str) -> Iterator[Problem]:
    kind = plugin.get("type")
    for name, (rule, required) in _PLUGINS.get(kind if isinstance(kind, str) else "", {}).items():
        value = plugin.get(name)
        if value is None:
            if required:
                yield Problem(f"{path}.{name}", "", rule.allowed)
        elif not rule.accepts(value) and not has_variable(value):
            yield Problem(f"{path}.{name}", shown(value), rule.allowed)


_PLUGIN_FIELDS: Mapping[str, Field | Shape] = {
    "type": Field(_NOT_EMPTY, required=True),
    "ipam": Fields({"type": TEXT}, open=True),
}
_PLUGIN = Fields(_PLUGIN_FIELDS, open=True, check=_plugin_fits)


def _has_plugins(config: Mapping[str, object], path: str) -> Iterator[Problem]:
    """A list of plugins, or the only one itself."""
    if config.get("plugins") is None and config.get("type") is None:
        yield Problem(f"{path}.plugins", "", "a list of at least one plugin, such as [{type: macvlan, master: eth0}]")
    elif config.get("plugins") is not None and not config["plugins"]:
        yield Problem(f"{path}.plugins", "[]", "at least one plugin")
    elif config.get("plugins") is None:
        yield from _plugin_fits(config, path)


_CONFIG = Fields(
    {
        "cniVersion": Field(_VERSION, required=True),
        "name": Field(_NOT_EMPTY, required=True),
        "plugins": Listed(_PLUGIN),
        "ipam": AnyJson(),
    },
    open=True,  # with one plugin, its fields stand here
    check=_has_plugins,
)
_SHAPE = Fields({"ifName": Field(INTERFACE_NAME, required=True), "config": Field(_CONFIG, required=True)})


def one_request_each(driver: Driver, situation: RuleInput) -> Iterator[Finding]:
    """A configuration is one interface: of one request, one device, one pod."""
    for claim in situation.claims:
        configs = [config for config in claim.configs if config.driver == driver.name]
        for config in configs:
            covered = [request for request in claim.requests if config.covers(request.reference)]
            if len(covered) != 1:
                message = f"It is for {len(covered)} requests; a CNI configuration is for exactly one."
                yield situation.finding(CNI_ONE_INTERFACE, f"{config.path}.requests", message)
            elif covered[0].count != 1:
                count = "all" if covered[0].count is None else covered[0].count
                message = f"{covered[0].reference} asks for {count} devices; a CNI configuration is for exactly one."
                yield situation.finding(CNI_ONE_INTERFACE, f"{covered[0].path}.count", message)
            elif sum(other.covers(covered[0].reference) for other in configs) > 1:
                message = f"{covered[0].reference} has several CNI configurations; exactly one is read."
                yield situation.finding(CNI_ONE_INTERFACE, f"{config.path}.requests", message)


CNI = Driver(
    name=names.CNI_DRIVER,
    title="CNI",
    prepared_for=PreparedFor.POD,
    classes=(KnownClass(names.CNI_GROUP),),
    parameter_kinds=tuple(
        ParameterKind(kind, f"{group}/v1alpha1", _SHAPE)
        for kind in ("CNIConfig", "CNI")
        for group in (names.CNI_GROUP, names.CNI_DRIVER)
    ),
    rules=(*COMMON_RULES, one_request_each),
)
