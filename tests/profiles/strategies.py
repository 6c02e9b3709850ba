"""Values of the profile language, most of them accepted."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

from dra_spawner.common.json_types import JsonObject
from dra_spawner.profiles.syntax.keys import FORMS, REQUEST_KEYS
from tests.profiles.accepted import NETWORK

ALL_KEYS = sorted({*REQUEST_KEYS, *(key for keys in FORMS.values() for key in keys)})

names = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,10}[a-z0-9])?", fullmatch=True) | st.just("n" * 63)
classes = st.sampled_from(["gpu.example.com", "mig.example.com", "a"])
identifiers = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,31}", fullmatch=True)
attributes = st.builds("{}/{}".format, st.sampled_from(["gpu.example.com", "resource.kubernetes.io"]), identifiers)
quantities = st.integers(1, 2**40) | st.from_regex(r"[1-9][0-9]{0,3}(\.[0-9]{1,3})?(Ki|Mi|Gi|m|k|M)?", fullmatch=True)
printable = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=64)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="{}"), max_size=20) | st.sampled_from(
    ["{username}", "net-{vlan}", "{{", '{{"a": 1}}']
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
versions = st.lists(st.integers(0, 10**9 - 1), min_size=1, max_size=3).map(
    lambda parts: ">=" + ".".join(map(str, parts))
)
tolerations = st.fixed_dictionaries(
    {},
    optional={
        "key": st.sampled_from(["", "example.com/fault", "plain", "a.b-c_D"]),
        "effect": st.sampled_from(["", "NoSchedule", "NoExecute", "None"]),
        "tolerationSeconds": st.integers(-(2**63), 2**63 - 1),
    },
).flatmap(
    lambda base: st.sampled_from(
        [base, {**base, "operator": "Exists"}, {**base, "operator": "Equal", "value": "x.Y_z"}, {**base, "value": ""}]
    )
)
_optional_fields = {
    "product": printable,
    "min_memory": quantities,
    "compute_capability": versions,
    "mig_profile": st.sampled_from(["1g.5gb", "1c.2g.10gb+me.all"]),
    "numa_node": st.integers(0, 1023),
    "pci_bus_id": st.from_regex(r"[0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[01][0-9A-Fa-f]\.[0-7]", fullmatch=True),
    "rdma": st.just(True),
    "capacity": st.dictionaries(identifiers | attributes, quantities, max_size=3),
    "where": st.lists(st.sampled_from(["true", "device.allowMultipleAllocations"]), max_size=3),
    "count": st.integers(1, 4) | st.just("all"),
    "tolerations": st.lists(tolerations, max_size=3),
}
alternatives = st.fixed_dictionaries({"device_class": classes}, optional=_optional_fields)
requests: st.SearchStrategy[JsonObject] = st.fixed_dictionaries(
    {"device_class": classes}, optional={**_optional_fields, "admin_access": st.booleans(), "optional": st.booleans()}
) | st.fixed_dictionaries(
    {
        "first_available": st.builds(
            lambda some, none: {**some, **none},
            st.dictionaries(names.filter("none".__ne__), alternatives, min_size=1, max_size=8),
            st.sampled_from([{}, {"none": {}}]),
        )
    }
)
groups = printable.filter(str.isprintable)
#: Optional fields of claims that are created for servers.
_of_claims = {
    "shared": st.fixed_dictionaries({"by": st.sampled_from(["user", "everybody"])})
    | st.fixed_dictionaries(
        {"by": st.just("group"), "group": groups | st.lists(groups, min_size=1, max_size=3)},
        optional={"keep": st.sampled_from(["1s", "10m", "always"])},
    ),
    "companions": st.dictionaries(names, st.just({"manifest": NETWORK}), max_size=2),
}


@st.composite
def long_claims(draw: st.DrawFn) -> dict[str, Any]:
    """A claim in long form, whose constraints and configurations name its requests."""
    wanted = draw(st.dictionaries(names, requests, min_size=1, max_size=4))
    known = list(wanted)
    for name, request in wanted.items():
        known += [f"{name}/{each}" for each in request.get("first_available", ()) if each != "none"]
    some = st.lists(st.sampled_from(known), unique=True, min_size=1, max_size=32)
    constraint = st.one_of(
        [
            st.fixed_dictionaries({kind: attributes}, optional={"requests": some})
            for kind in ("match_attribute", "distinct_attribute")
        ]
    )
    config = st.fixed_dictionaries(
        {"driver": classes, "parameters": st.dictionaries(texts, json_values, max_size=3)}, optional={"requests": some}
    )
    return draw(
        st.fixed_dictionaries(
            {"requests": st.just(wanted)},
            optional={
                "constraints": st.lists(constraint, max_size=3),
                "config": st.lists(config, max_size=3),
                **_of_claims,
            },
        )
    )


@st.composite
def short_claims(draw: st.DrawFn) -> dict[str, Any]:
    """A claim of one request."""
    return {**draw(requests), **draw(st.fixed_dictionaries({}, optional=_of_claims))}


@st.composite
def pairs_claims(draw: st.DrawFn) -> dict[str, Any]:
    """A claim of several equal sets of requests."""
    wanted = draw(st.dictionaries(st.sampled_from(["gpu", "nic", "disk"]), requests, min_size=2))
    pairs = {"count": draw(st.integers(1, 2)), "match_attribute": draw(attributes), "requests": wanted}
    containers = {"notebook": draw(st.lists(st.sampled_from([*wanted, *(f"{each}-0" for each in wanted)])))}
    return {"pairs": pairs, "containers": containers, **draw(st.fixed_dictionaries({}, optional=_of_claims))}


device_claims = st.dictionaries(names, short_claims() | long_claims() | pairs_claims(), max_size=3)

#: Values that an administrator, or YAML, may put anywhere by mistake.
junk = st.sampled_from(
    [
        None,
        True,
        False,
        0,
        -1,
        2**70,
        1.5,
        float("nan"),
        "",
        "all",
        "{value}",
        "a/b",
        "\ud800",
        [],
        [None],
        {},
        {1: 2},
        (),
        {1},
    ]
) | st.builds(object)


@st.composite
def broken_device_claims(draw: st.DrawFn) -> object:
    """Claims in which junk stands somewhere, or a key is wrong."""
    value: Any = draw(device_claims.filter(bool))
    parents: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        for key in list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
            parents.append((node, key))
            walk(node[key])

    value = copy.deepcopy(value)  # the strategies share parts
    walk(value)
    parent, key = draw(st.sampled_from(parents))
    if isinstance(parent, dict) and draw(st.booleans()):
        parent[draw(st.sampled_from([*ALL_KEYS, "x", 5]))] = draw(junk)
    else:
        parent[key] = draw(junk)
    return value
