"""``intel_gas`` as an administrator writes it: accepted and refused."""

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_spawner.profiles.intel_gas import GpuRequest, intel_gas_schema, parse_intel_gas
from dra_spawner.profiles.intel_gas.gas_language import ContainerGpuRequest
from dra_spawner.profiles.intel_gas.ledger import Need
from dra_spawner.profiles.intel_gas.names import CardPolicy, CardScheduler, GpuResource, Hierarchy
from dra_spawner.profiles.syntax.problems import ProfileError
from tests.all_of_them import all_of_them

GIB = 2**30


def only(**need):
    return (ContainerGpuRequest("notebook", need.pop("count", 1), Need(**need)),)


ACCEPTED = {
    "one card": ({"count": 1}, GpuRequest()),
    "xe": ({"resource": "xe"}, GpuRequest(resource=GpuResource.XE)),
    "amounts": (
        {"millicores": 500, "memory": "4Gi", "tiles": 1, "count": 2},
        GpuRequest(only(count=2, millicores=500, memory_bytes=4 * GIB, tiles=1)),
    ),
    "text of forms": ({"millicores": "250", "tiles": "2"}, GpuRequest(only(millicores=250, tiles=2))),
    "memory in bytes": ({"memory": 1000}, GpuRequest(only(memory_bytes=1000))),
    "null is left out": ({"millicores": None, "count": 1}, GpuRequest()),
    "policy": ({"policy": "packed"}, GpuRequest(policy=CardPolicy.PACKED)),
    "cards": (
        {"prefer": ["card1"], "allow": ["card0", "card1"], "deny": ["card7"]},
        GpuRequest(prefer=("card1",), allow=("card0", "card1"), deny=("card7",)),
    ),
    "containers": (
        {"millicores": 100, "containers": {"notebook": {}, "sidecar": {"millicores": 300}, "idle": None}},
        GpuRequest(
            (
                ContainerGpuRequest("notebook", 1, Need(100)),
                ContainerGpuRequest("sidecar", 1, Need(300)),
                ContainerGpuRequest("idle", 1, Need(100)),
            )
        ),
    ),
    "same gpu": (
        {"containers": {"a": {"millicores": 1}, "b": {}}, "same_gpu": ["a", "b"]},
        GpuRequest((ContainerGpuRequest("a", 1, Need(1)), ContainerGpuRequest("b")), same_gpu=("a", "b")),
    ),
    "xe link": (
        {"count": 2, "tiles": 1, "xe_link": True, "single_numa": True, "hierarchy": "COMPOSITE", "scheduler": "none"},
        GpuRequest(
            only(count=2, tiles=1),
            xe_link=True,
            single_numa=True,
            hierarchy=Hierarchy.COMPOSITE,
            scheduler=CardScheduler.NONE,
        ),
    ),
}
REFUSED = [
    pytest.param([], "intel_gas", id="a list"),
    pytest.param("i915", "intel_gas", id="text"),
    pytest.param({"millicore": 1}, "intel_gas.millicore", id="misspelt"),
    pytest.param({"resource": "gaudi"}, "intel_gas.resource", id="resource"),
    pytest.param({"count": 0}, "intel_gas.count", id="no card"),
    pytest.param({"count": True}, "intel_gas.count", id="truth for a number"),
    pytest.param({"count": "01"}, "intel_gas.count", id="leading zero"),
    pytest.param({"count": 65}, "intel_gas.count", id="too many cards"),
    pytest.param({"millicores": 1001}, "intel_gas.millicores", id="more than a card"),
    pytest.param({"millicores": "1 000"}, "intel_gas.millicores", id="no number"),
    pytest.param({"millicores": 0.5}, "intel_gas.millicores", id="half a millicore"),
    pytest.param({"memory": "0"}, "intel_gas.memory", id="no memory"),
    pytest.param({"memory": "lots"}, "intel_gas.memory", id="no quantity"),
    pytest.param({"tiles": 65}, "intel_gas.tiles", id="too many tiles"),
    pytest.param({"policy": "none"}, "intel_gas.policy", id="policy"),
    pytest.param({"prefer": "card0"}, "intel_gas.prefer", id="a card, no list"),
    pytest.param({"allow": ["card0", "gpu1"]}, "intel_gas.allow[1]", id="no card"),
    pytest.param({"deny": ["card0", "card0"]}, "intel_gas.deny", id="twice"),
    pytest.param({"single_numa": "yes"}, "intel_gas.single_numa", id="no truth"),
    pytest.param({"hierarchy": "flat"}, "intel_gas.hierarchy", id="hierarchy"),
    pytest.param({"scheduler": "kube"}, "intel_gas.scheduler", id="scheduler"),
    pytest.param({"containers": {}}, "intel_gas.containers", id="no container"),
    pytest.param({"containers": {"N": {}}}, "intel_gas.containers.N", id="no name"),
    pytest.param({"containers": {"a": {"memory": "x"}}}, "intel_gas.containers.a.memory", id="in a container"),
    pytest.param({"containers": {"a": {"policy": "x"}}}, "intel_gas.containers.a.policy", id="key of the whole"),
    pytest.param({"memory": "x", "containers": {"a": {}, "b": {}}}, "intel_gas.memory", id="reported once"),
    pytest.param({"containers": {"a": {}}, "same_gpu": ["a"]}, "intel_gas.same_gpu", id="same gpu alone"),
    pytest.param({"same_gpu": ["notebook", "x"]}, "intel_gas.same_gpu", id="unknown container"),
    pytest.param({"containers": {"a": {}, "b": {"tiles": 1}}}, "intel_gas.containers", id="tiles for some"),
    pytest.param(
        {"containers": {"a": {}, "b": {}, "c": {}}, "tiles": 1, "same_gpu": ["a", "x"]},
        "intel_gas.same_gpu,intel_gas.same_gpu",
        id="same gpu, tiles",
    ),
    pytest.param(
        {"containers": {"a": {}, "b": {"count": 2}}, "same_gpu": ["a", "b"]}, "intel_gas.same_gpu", id="same gpu, two"
    ),
    pytest.param({"xe_link": True, "tiles": 1}, "intel_gas.xe_link", id="xe link, odd"),
    pytest.param({"xe_link": True, "count": 2}, "intel_gas.xe_link", id="xe link, no tiles"),
    pytest.param({"xe_link": True, "count": 2, "tiles": 2}, "intel_gas.xe_link", id="xe link, two tiles each"),
]


@pytest.mark.parametrize("value", [None, {}])
def test_nothing(value):
    assert parse_intel_gas(value) is None


@all_of_them("value, expected", ACCEPTED)
def test_accepted(value, expected):
    assert parse_intel_gas(value) == expected
    without_nulls = {key: each for key, each in value.items() if each is not None}
    if "containers" in without_nulls:
        without_nulls["containers"] = {name: each or {} for name, each in value["containers"].items()}
    jsonschema.validate(without_nulls, intel_gas_schema())


@all_of_them("value, path", REFUSED)
def test_refused_with_its_path(value, path):
    with pytest.raises(ProfileError) as caught:
        parse_intel_gas(value)
    assert ",".join(problem.path for problem in caught.value.problems) == path


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
keys = st.sampled_from(list(intel_gas_schema()["properties"]))


@given(st.dictionaries(keys | st.text(), json_values))
def test_junk_is_refused_or_understood(value):
    try:
        request = parse_intel_gas(value)
    except ProfileError as error:
        lines = str(error).splitlines()
        request, problems = None, error.problems
    else:
        lines, problems = [], ()
    assert len(lines) == len(problems), "a problem is a line"
    assert problems or request is None or request.containers
