"""Words for properties of devices: they match devices of any driver, without an error."""

from hypothesis import given
from hypothesis import strategies as st

from dra_spawner.dra.cel import CelDevice, compile_selector
from dra_spawner.dra.quantity import Quantity
from dra_spawner.profiles.choices import list_choices
from dra_spawner.profiles.syntax.properties import PROPERTIES
from tests.all_of_them import all_of_them
from tests.presence import present

STANDARD = "resource.kubernetes.io"


def device(driver="gpu.example.com", memory=None):
    capacity = {"memory": Quantity.parse(memory)} if memory else {}
    return CelDevice.from_device(driver, {}, capacity, False)


def of(name, **value):
    return CelDevice.from_device("gpu.example.com", {name: value}, {}, False)


NOTHING = device()
TABLE = [
    ("min_memory", "20Gi", device(memory="20Gi"), True),
    ("min_memory", "20Gi", device(memory="20479Mi"), False),
    ("min_memory", 1000, device(memory="1k"), True),
    ("min_memory", "1Gi", of("memory", string="40Gi"), False),
    ("compute_capability", ">=8.0", of("cudaComputeCapability", version="8.0.0"), True),
    ("compute_capability", ">=8.0", of("cudaComputeCapability", version="7.5.0"), False),
    ("compute_capability", ">=9", of("cudaComputeCapability", version="10.3.0"), True),
    ("compute_capability", ">= 8.6.1", of("cudaComputeCapability", version="8.6.0"), False),
    ("compute_capability", ">=8.0", of("other.example.com/cudaComputeCapability", version="9.0.0"), False),
    ("mig_profile", "1g.5gb", of("profile", string="1g.5gb"), True),
    ("mig_profile", "1g.5gb", of("profile", string="1g.5gb+me"), False),
    ("mig_profile", "1g.5gb", of("profile", int=1), False),
    ("numa_node", 1, of("numaNode", int=1), True),
    ("numa_node", 1, of("numaNode", int=0), False),
    ("numa_node", 0, of("numaNodeID", int=0), True),
    ("numa_node", 0, of(f"{STANDARD}/numaNode", int=0), True),
    ("numa_node", 0, of("dra.net/numaNode", int=0), True),
    ("numa_node", 0, of("numaNode", string="0"), False),
    ("pci_bus_id", "0000:8A:00.0", of(f"{STANDARD}/pciBusID", string="0000:8a:00.0"), True),
    ("pci_bus_id", "0000:8a:00.0", of("pciAddress", string="0000:8a:00.0"), True),
    ("pci_bus_id", "0000:8a:00.0", of("pciAddr", string="0000:8a:00.0"), True),
    ("pci_bus_id", "0000:8a:00.0", of("pcieBusID", string="0000:8a:00.0"), True),
    ("pci_bus_id", "0000:8a:00.0", of("pciBusID", string="0000:8a:00.1"), False),
    ("rdma", True, of("rdma", bool=True), True),
    ("rdma", True, of("rdmaCapable", bool=True), True),
    ("rdma", True, of("rdma", bool=False), False),
    ("rdma", True, of("rdma", string="true"), False),
]


@all_of_them("word, value, candidate, holds", TABLE)
def test_a_property_holds_for_its_devices(word, value, candidate, holds):
    assert PROPERTIES[word].rule.accepts(value)
    assert compile_selector(PROPERTIES[word].selector(value)).matches(candidate) is holds


@all_of_them("word, value", {word: (word, value) for word, value, *_ in TABLE})
def test_a_property_is_false_and_no_error_on_a_device_that_publishes_nothing(word, value):
    for driver in ("gpu.example.com", "dra.net", "sriovnetwork.k8snetworkplumbingwg.io"):
        assert compile_selector(PROPERTIES[word].selector(value)).matches(device(driver)) is False, driver


def numa_nodes(*nodes, name="dra.net/numaNode"):
    return CelDevice.from_device("gpu.example.com", {name: {"ints": list(nodes)}}, {}, False, list_attributes=True)


@all_of_them(
    "candidate, holds",
    {
        "among others": (numa_nodes(0, 1), True),
        "own": (numa_nodes(1, name="numaNode"), True),
        "others": (numa_nodes(0, 2), False),
        "one": (of("numaNode", int=1), True),
        "another": (of("numaNode", int=0), False),
        "text": (of("numaNode", string="1"), False),
        "nothing": (NOTHING, False),
    },
)
def test_a_numa_node_among_others(candidate, holds):
    """Only where the hub says that attributes may be lists; else the CEL is one that all API servers accept."""
    claims = {"gpu": {"device_class": "gpu.example.com", "numa_node": 1}}
    for gates in ({}, {"DRAListTypeAttributes": True}):
        (listed,) = list_choices(None, {"device_claims": claims, "kubernetes_feature_gates": gates})
        request = present(listed.choice).plan.specs["gpu"]["devices"]["requests"][0]["exactly"]
        expression = request["selectors"][0]["cel"]["expression"]
        assert ("includes" in expression) is bool(gates)
        if gates:
            assert compile_selector(expression, list_attributes=True).matches(candidate) is holds


def test_every_word_is_in_the_table():
    assert {word for word, *_ in TABLE} | {"product"} == set(PROPERTIES)


@given(st.text(max_size=30) | st.from_regex(r"[1-9]g\.[0-9]+gb.*", fullmatch=True))
def test_text_is_refused_or_stays_inside_its_literal(text):
    for word in ("mig_profile", "pci_bus_id", "compute_capability", "min_memory"):
        if PROPERTIES[word].rule.accepts(text):
            assert compile_selector(PROPERTIES[word].selector(text)).matches(NOTHING) is False
