"""Values that the profile language accepts, and refusals of others."""

import pytest

from dra_spawner.profiles import AdminAccessRefused, ProfileError, compile_device_claims
from dra_spawner.profiles.compiler.language import parse_device_claims
from tests.all_of_them import all_of_them
from tests.presence import present
from tests.profiles.accepted import ACCEPTED
from tests.profiles.refused import REFUSED

CLASS = {"device_class": "gpu.example.com"}


def problems_of(value):
    with pytest.raises(ProfileError) as caught:
        parse_device_claims(value)
    return [(problem.path, problem.found, problem.allowed) for problem in caught.value.problems]


def test_short_form_is_one_request_named_like_the_claim():
    (claim,) = parse_device_claims({"gpu": {**CLASS, "capacity": {"memory": "10Gi"}, "count": 2}})
    (request,) = claim.requests
    assert (claim.name, request.name, request.count) == ("gpu", "gpu", 2)
    assert request.capacity == (("memory", "10Gi"),)
    assert claim.containers == (("notebook", ("gpu",)),)


def test_long_form_gives_requests_to_containers():
    value = {
        "accelerator": {
            "requests": {"gpu": CLASS, "nic": {"device_class": "nic.example.com"}},
            "containers": {"notebook": ["gpu", "nic"], "sidecar": ["nic"], "logger": []},
        }
    }
    plan = compile_device_claims(value)
    assert plan.container_claims() == {
        "notebook": [{"name": "accelerator"}],
        "sidecar": [{"name": "accelerator", "request": "nic"}],
    }
    assert plan.device_classes == ("gpu.example.com", "nic.example.com")


def test_nothing_asked_for_is_an_empty_plan():
    plan = compile_device_claims({})
    assert plan.claims == ()
    assert plan.container_claims() == {}


@pytest.mark.parametrize(
    ("amount", "written"),
    [("10Gi", "10Gi"), (3, "3"), ("1500m", "1500m"), ("10240Mi", "10Gi"), ("1e3", "1e3"), ("0.5", "500m")],
)
def test_quantities_are_written_canonically(amount, written):
    (claim,) = parse_device_claims({"gpu": {**CLASS, "capacity": {"memory": amount}}})
    assert claim.requests[0].capacity == (("memory", written),)


@all_of_them("value, path, found, allowed", {
    "list instead of mapping": (["gpu"], "", "['gpu']", "mapping"),
    "claim is text": ({"gpu": "gpu.example.com"}, ".gpu", "'gpu.example.com'", "device_class"),
    "claim name": ({"GPU": CLASS}, ".GPU", "'GPU'", "lower-case"),
    "claim name too long": ({"g" * 64: CLASS}, "." + "g" * 64, "", "63"),
    "claim name no text": ({1: CLASS}, ".1", "1", "text"),
    "no class": ({"gpu": {}}, ".gpu.device_class", "", "DeviceClass"),
    "class a number": ({"gpu": {"device_class": 3}}, ".gpu.device_class", "3", "DeviceClass"),
    "class name": ({"gpu": {"device_class": "A b"}}, ".gpu.device_class", "'A b'", "DeviceClass"),
    "class length": ({"gpu": {"device_class": "a" * 254}}, ".gpu.device_class", "", "DeviceClass"),
    "typo": ({"gpu": {**CLASS, "capcity": {}}}, ".gpu.capcity", "'capcity'", "capacity, where"),
    "count 0": ({"gpu": {**CLASS, "count": 0}}, ".gpu.count", "0", "from 1 to 32"),
    "count 33": ({"gpu": {**CLASS, "count": 33}}, ".gpu.count", "33", "from 1 to 32"),
    "count bool": ({"gpu": {**CLASS, "count": True}}, ".gpu.count", "True", "whole number"),
    "count text": ({"gpu": {**CLASS, "count": "2"}}, ".gpu.count", "'2'", "whole number"),
    "bare amount": ({"gpu": {**CLASS, "capacity": "10Gi"}}, ".gpu.capacity", "'10Gi'", "memory"),
    "unit": ({"gpu": {**CLASS, "capacity": {"memory": "10 Gi"}}}, ".gpu.capacity.memory", "'10 Gi'", "10Gi"),
    "GB": ({"gpu": {**CLASS, "capacity": {"memory": "10GB"}}}, ".gpu.capacity.memory", "'10GB'", "10Gi"),
    "negative": ({"gpu": {**CLASS, "capacity": {"memory": "-5Gi"}}}, ".gpu.capacity.memory", "'-5Gi'", "above"),
    "zero": ({"gpu": {**CLASS, "capacity": {"memory": 0}}}, ".gpu.capacity.memory", "0", "above zero"),
    "float": ({"gpu": {**CLASS, "capacity": {"memory": 1.5}}}, ".gpu.capacity.memory", "1.5", "quantity"),
    "none": ({"gpu": {**CLASS, "capacity": {"memory": None}}}, ".gpu.capacity.memory", "None", "quantity"),
    "capacity name": ({"gpu": {**CLASS, "capacity": {"a b": 1}}}, ".gpu.capacity.a b", "'a b'", "exactly"),
    "where a number": ({"gpu": {**CLASS, "where": 5}}, ".gpu.where", "5", "CEL"),
    "where a list of bool": ({"gpu": {**CLASS, "where": [True]}}, ".gpu.where[0]", "True", "CEL"),
    "CEL syntax": ({"gpu": {**CLASS, "where": "device.driver =="}}, ".gpu.where", "", "column"),
    "CEL no bool": ({"gpu": {**CLASS, "where": ["true", "1 + 1"]}}, ".gpu.where[1]", "'1 + 1'", "column"),
    "selectors": ({"gpu": {**CLASS, "where": ["true"] * 33}}, ".gpu.where", "'33 expressions'", "32"),
    "empty product": ({"gpu": {**CLASS, "product": ""}}, ".gpu.product", "''", "A100"),
    "product a number": ({"gpu": {**CLASS, "product": 100}}, ".gpu.product", "100", "A100"),
    "product lines": ({"gpu": {**CLASS, "product": "a\nb"}}, ".gpu.product", r"'a\nb'", "A100"),
    "no request": ({"a": {"requests": {}}}, ".a.requests", "", "at least one"),
    "requests a list": ({"a": {"requests": []}}, ".a.requests", "[]", "mapping"),
    "mixed forms": ({"a": {"requests": {"g": CLASS}, "count": 2}}, ".a.count", "'count'", "requests, containers"),
    "containers in short form": ({"a": {**CLASS, "containers": {"notebook": ["a"]}}}, ".a.containers", "", "long form"),
    "unknown request": ({"a": {"requests": {"g": CLASS}, "containers": {"notebook": ["x"]}}}, ".a.containers.notebook[0]", "'x'", "g"),
    "request no list": ({"a": {"requests": {"g": CLASS}, "containers": {"notebook": "g"}}}, ".a.containers.notebook", "'g'", "list"),
    "devices in all": ({"a": {"requests": {"g": {**CLASS, "count": 20}, "h": {**CLASS, "count": 13}}}}, ".a.requests", "33 devices", "32"),
    "requests in all": ({"a": {"requests": {f"g{i}": CLASS for i in range(33)}}}, ".a.requests", "33 entries", "32"),
})  # fmt: skip
def test_refused_with_path_found_and_allowed(value, path, found, allowed):
    (at, seen, may_be), *_ = problems_of(value)
    assert at == f"device_claims{path}"
    assert found in seen
    assert allowed in may_be


@all_of_them("value, path, found, allowed", REFUSED)
def test_refused_in_every_part_of_the_language(value, path, found, allowed):
    (at, seen, may_be), *_ = problems_of(value)
    assert at == f"device_claims{path}"
    assert found in seen
    assert allowed in may_be


@all_of_them("value", ACCEPTED)
def test_accepted(value):
    assert [claim.name for claim in parse_device_claims(value)] == list(value)


def test_alternatives_keep_their_order():
    names = ["whole", "big", "a", "mig"]
    (ordered,) = parse_device_claims({"gpu": {"first_available": dict.fromkeys(names, CLASS)}})
    (listed,) = parse_device_claims({"gpu": {"first_available": [{"name": name, **CLASS} for name in names]}})
    for claim in (ordered, listed):
        assert [alternative.name for alternative in claim.requests[0].first_available] == names


ADMIN_ACCESS = [
    pytest.param({"gpu": {**CLASS, "admin_access": True}}, ".gpu.admin_access", id="short form"),
    pytest.param(
        {"a": {"requests": {"gpu": {**CLASS, "admin_access": True}}}}, ".a.requests.gpu.admin_access", id="long form"
    ),
    pytest.param(
        {
            "a": {
                "spec": {
                    "devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c", "adminAccess": True}}]}
                }
            }
        },
        ".a.spec.devices.requests[0].exactly.adminAccess",
        id="spec",
    ),
]


@pytest.mark.parametrize(("value", "path"), ADMIN_ACCESS)
def test_admin_access_is_for_administrators_of_the_hub(value, path):
    with pytest.raises(AdminAccessRefused, match="administrators of the hub only") as caught:
        parse_device_claims(value)
    assert [problem.path for problem in caught.value.problems] == [f"device_claims{path}"]
    (claim,) = compile_device_claims(value, admin_access=True).claims
    assert present(claim.spec)["devices"]["requests"][0]["exactly"]["adminAccess"] is True


def test_admin_access_hides_no_other_problem():
    with pytest.raises(ProfileError) as caught:
        parse_device_claims({"gpu": {**CLASS, "admin_access": True, "count": 0}})
    assert not isinstance(caught.value, AdminAccessRefused)
    assert [problem.path for problem in caught.value.problems] == ["device_claims.gpu.count"]


def test_parameters_are_a_copy_and_wait_for_the_start_to_be_expanded():
    parameters = {"user": "{username}", "list": ({"unescaped": "{user_server!s}"},)}
    value = {"a": {"requests": {"gpu": CLASS}, "config": [{"driver": "gpu.example.com", "parameters": parameters}]}}
    (claim,) = parse_device_claims(value)
    parameters["user"] = "changed"
    assert claim.config[0].parameters == {"user": "{username}", "list": [{"unescaped": "{user_server!s}"}]}


@pytest.mark.parametrize("text", ["x" * 10231, "é" * 1705])
def test_parameters_may_be_as_long_as_the_api_takes(text):
    parameters = {"a": text}
    value = {"a": {"requests": {"gpu": CLASS}, "config": [{"driver": "gpu.example.com", "parameters": parameters}]}}
    assert parse_device_claims(value)[0].config[0].parameters == {"a": text}
    parameters["a"] += "é"
    assert [path for path, _, _ in problems_of(value)] == ["device_claims.a.config[0].parameters"]


def test_every_problem_is_named_at_once():
    value = {"gpu": {"device_class": 1, "count": 0, "capacity": {"memory": "x"}}, "nic": None}
    assert [path for path, _, _ in problems_of(value)] == [
        "device_claims.gpu.device_class",
        "device_claims.gpu.count",
        "device_claims.gpu.capacity.memory",
        "device_claims.nic",
    ]


def test_messages_stay_on_one_line_whatever_the_keys():
    with pytest.raises(ProfileError) as caught:
        parse_device_claims({"gpu\n\x1b[31m\ud800": CLASS})
    assert str(caught.value).startswith(r"device_claims.gpu\n\x1b[31m\ud800: found")
    assert str(caught.value).isprintable()


def test_messages_stay_on_one_line_and_short():
    with pytest.raises(ProfileError) as caught:
        parse_device_claims({"gpu": {**CLASS, "count": "9" * 500 + "\n<script>"}})
    (line,) = str(caught.value).splitlines()
    assert len(line) < 250


def test_a_misspelt_key_is_reported_with_the_intended_key():
    with pytest.raises(ProfileError) as caught:
        parse_device_claims({"gpu": {**CLASS, "capcity": {"memory": "1Gi"}}})
    assert "allowed: capacity, or another of the keys of a request: device_class, " in str(caught.value)
