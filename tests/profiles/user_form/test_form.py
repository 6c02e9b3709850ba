"""The profile list as the form shows it: choices from devices' capacities, reserved amounts, how firm a share is."""

import copy
import html
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from dra_spawner.devcluster.demo.example_nodes import device_classes, resource_slices
from dra_spawner.dra.model.objects import DeviceClass, ResourceSlice
from dra_spawner.profiles.choices import list_choices
from dra_spawner.profiles.compiler.claims import DeviceRequest
from dra_spawner.profiles.facts import ClusterFacts
from dra_spawner.profiles.profile_list import profile_list_problems
from dra_spawner.profiles.syntax.user_options import user_options_problem
from dra_spawner.profiles.user_form.form import form_problems, form_profiles, has_policy_choices, unavailable_choice
from dra_spawner.profiles.user_form.form_texts import FormTexts
from dra_spawner.profiles.user_form.offers import DeviceCatalog
from dra_spawner.profiles.user_form.policy_choices import POLICY_KEYS
from tests.all_of_them import all_of_them
from tests.presence import present

SHARE = "gpu-share.example.com"
NIC = "vlan-nic.example.com"
FEW = ["5Gi", "10Gi", "15Gi", "20Gi", "25Gi", "30Gi", "35Gi", "40Gi"]
NOTHING = DeviceCatalog(ClusterFacts())


def catalog_of(classes, slices):
    decoded = {each["metadata"]["name"]: DeviceClass.from_json(each) for each in classes}
    return DeviceCatalog(ClusterFacts(device_classes=decoded, slices=tuple(map(ResourceSlice.from_json, slices))))


@pytest.fixture(scope="module")
def catalog():
    return catalog_of(device_classes(), resource_slices())


def test_a_gpu_that_is_published_as_its_parts_too_is_not_offered():
    """The second GPU is divided; nobody can have it whole."""

    def gpu(name, size, **attributes):
        texts = {key: {"string": value} for key, value in attributes.items()}
        return {"name": name, "attributes": texts, "capacity": {"memory": {"value": size}}}

    whole = gpu("gpu-0", "80Gi", uuid="GPU-0"), gpu("gpu-1", "40Gi", uuid="GPU-1")
    part = gpu("mig-1", "10Gi", uuid="MIG-1", parentUUID="GPU-1")
    pool = {"name": "node-a", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.nvidia.com", "nodeName": "node-a", "pool": pool, "devices": [*whole, part]}
    classes = [{"metadata": {"name": "gpu"}, "spec": {"selectors": []}}]
    offered = catalog_of(classes, [{"metadata": {"name": "s"}, "spec": spec}]).offers(
        DeviceRequest(name="gpu", device_class="gpu"), "memory"
    )
    assert sorted(str(each.capacity.value) for each in offered) == ["10Gi", "80Gi"]


def profile(claims=None, **more):
    claims = {"gpu": {"device_class": SHARE, "capacity": {"memory": "10Gi"}}} if claims is None else claims
    return {"display_name": "GPU", "slug": "gpu", "kubespawner_override": {"device_claims": claims}, **more}


def option(choices, **for_pending_pod):
    return {"profile_options": {"memory": {"display_name": "GPU memory", "choices": choices}, **for_pending_pod}}


def choice(claims, name="a choice", **more):
    return {"display_name": name, "kubespawner_override": {"device_claims": claims}, **more}


def generated(made, catalog, **more):
    (shown,) = form_profiles([made], catalog, {}, **more)
    return shown["profile_options"]["memory"]["choices"]


def default_of(choices):
    return [slug for slug, each in choices.items() if each.get("default")]


# --- from_policy ---------------------------------------------------------------------------------------------------


def test_choices_are_the_sizes_of_the_device(catalog):
    given = [profile(**option("from_policy"))]
    before = copy.deepcopy(given)
    choices = generated(given[0], catalog)
    assert list(choices) == FEW
    assert choices["15Gi"] == {
        "display_name": "15 GiB",
        "kubespawner_override": {"device_claims": {"gpu": {"capacity": {"memory": "15Gi"}}}},
    }
    assert default_of(choices) == ["10Gi"]
    assert given == before


LONG = {"accelerator": {"requests": {"gpu": {"device_class": SHARE}, "nic": {"device_class": NIC}}}}
ALTERNATIVES = {
    "gpu": {
        "first_available": {
            "slice": {"device_class": "mig.example.com"},
            "share": {"device_class": SHARE, "capacity": {"memory": "5Gi"}},
        }
    }
}


@pytest.mark.parametrize(
    ("claims", "reference", "override", "sizes"),
    [
        pytest.param(
            LONG,
            {"request": "gpu", "capacity": "memory"},
            {"accelerator": {"requests": {"gpu": {"capacity": {"memory": "40Gi"}}}}},
            FEW,
            id="long form",
        ),
        pytest.param(
            LONG,
            {"request": "nic", "capacity": "bandwidth"},
            {"accelerator": {"requests": {"nic": {"capacity": {"bandwidth": "10G"}}}}},
            ["100M", "200M", "500M", "1G", "2G", "5G", "10G"],
            id="decimal",
        ),
        pytest.param(
            ALTERNATIVES,
            {"request": "gpu/share"},
            {"gpu": {"first_available": {"share": {"capacity": {"memory": "40Gi"}}}}},
            FEW,
            id="alternative",
        ),
        pytest.param(
            {"a": {"device_class": SHARE, "capacity": {"memory": "5Gi"}}, "b": {"device_class": NIC}},
            {"claim": "a", "smallest": "10Gi", "largest": "20Gi"},
            {"a": {"capacity": {"memory": "20Gi"}}},
            ["10Gi", "15Gi", "20Gi"],
            id="limits",
        ),
        pytest.param(
            {"gpu": {"device_class": SHARE, "capacity": {"memory": "10Gi"}}},
            {"at_most": 3},
            {"gpu": {"capacity": {"memory": "40Gi"}}},
            ["10Gi", "20Gi", "40Gi"],
            id="fewer",
        ),
        pytest.param(
            {"gpu": {"device_class": "gpu.example.com", "min_memory": "60Gi", "capacity": {"memory": "1Gi"}}},
            {},
            {"gpu": {"capacity": {"memory": "80Gi"}}},
            ["80Gi"],
            id="devices that are not shared, and a condition",
        ),
    ],
)
def test_from_policy_refers_to_a_capacity_of_a_claim(catalog, claims, reference, override, sizes):
    made = profile(claims, **option({"from_policy": reference}))
    assert profile_list_problems([made]) == []
    choices = generated(made, catalog)
    assert list(choices) == sizes
    assert choices[sizes[-1]]["kubespawner_override"]["device_claims"] == override


@pytest.mark.parametrize(
    ("reference", "own", "default"),
    [
        ({"default": "20Gi"}, "10Gi", "20Gi"),
        ({"default": "12Gi"}, "10Gi", "15Gi"),
        ({"default": "99Gi"}, "10Gi", "40Gi"),
        ({}, "12Gi", "15Gi"),
        # The device's own default is its whole capacity: no good suggestion of a form.
        ({"capacity": "memory"}, None, "5Gi"),
    ],
    ids=str,
)
def test_the_default_choice(catalog, reference, own, default):
    claims = {"gpu": {"device_class": SHARE, **({"capacity": {"memory": own}} if own else {})}}
    assert default_of(generated(profile(claims, **option({"from_policy": reference})), catalog)) == [default]


def test_choices_beside_the_generated_ones_keep_their_order(catalog):
    for_pending_pod = {"whole": choice({"gpu": {"device_class": "gpu.example.com"}}, default=True), "from_policy": {}}
    choices = generated(profile(**option(for_pending_pod)), catalog)
    assert list(choices) == ["whole", *FEW]
    assert default_of(choices) == ["whole"]
    own = {"from_policy": choice({"gpu": {"count": 1}})}
    assert generated(profile(**option(own)), catalog) == own, "a choice that is called so is a choice"


def test_sizes_of_all_devices_that_other_options_may_lead_to(catalog):
    classes = {name: choice({"gpu": {"device_class": name}}) for name in (SHARE, "gpu.example.com")}
    made = profile(**option("from_policy", kind={"display_name": "Kind", "choices": classes}))
    assert list(generated(made, catalog))[-1] == "80Gi"


def test_a_size_that_was_picked_before_stays_possible(catalog):
    made = profile(**option({"from_policy": {"at_most": 3, "largest": "30Gi"}}))
    assert list(generated(made, catalog)) == ["10Gi", "20Gi", "30Gi"]
    for picked in ("15Gi", "12Gi"):
        options = {"profile": "gpu", "memory": picked}
        choices = generated(made, catalog, picked=options)
        assert list(choices) == ["10Gi", picked, "20Gi", "30Gi"] or list(choices) == ["10Gi", "20Gi", "30Gi", picked]
        (shown,) = form_profiles([made], catalog, {}, picked=options)
        assert user_options_problem([shown], options) is None


def test_nothing_else_can_be_picked(catalog):
    made = profile(**option({"from_policy": {"largest": "30Gi"}}))
    plain = {known: generated(made, known) for known in (catalog, NOTHING)}

    texts = ["35Gi", "-5Gi", "0", "10240Mi", "1e3Gi", "x", "<script>", "5" * 40, "", "unknown"]

    @all_of_them("picked", [*texts, 10, None, ["10Gi"], {"a": 1}])
    def check(picked):
        options = {"profile": "gpu", "memory": picked}
        for known, choices in plain.items():
            assert generated(made, known, picked=options) == choices
            (shown,) = form_profiles([made], known, {}, picked=options)
            assert user_options_problem([shown], options)

    check()


def test_limits_apply_to_the_reserved_amount(catalog):
    made = profile(**option({"from_policy": {"largest": "12Gi"}}))
    assert list(generated(made, catalog)) == ["5Gi", "10Gi"]
    for picked, is_offered in (("12Gi", False), ("11Gi", False), ("10241Mi", False), ("9Gi", True)):
        assert (picked in generated(made, catalog, picked={"profile": "gpu", "memory": picked})) is is_offered
    made = profile(**option({"from_policy": {"smallest": "12Gi", "largest": "20Gi"}}))
    assert list(generated(made, catalog)) == ["15Gi", "20Gi"]
    for picked, is_offered in (("11Gi", True), ("10Gi", False), ("12Gi", True), ("20481Mi", False)):
        assert (picked in generated(made, catalog, picked={"profile": "gpu", "memory": picked})) is is_offered


@pytest.mark.parametrize("picked", ["1n", "1Gi", "10e18", "9223372036854775807", "4Ei", "45Gi"])
def test_sizes_that_no_device_gives_cannot_be_picked(catalog, picked):
    made = profile(**option("from_policy"))
    assert list(generated(made, catalog, picked={"profile": "gpu", "memory": picked})) == FEW


def test_fallback_keeps_the_limits():
    made = profile(**option({"from_policy": {"largest": "12Gi", "fallback": ["5Gi", "10Gi", "20Gi"]}}))
    assert list(generated(made, NOTHING)) == ["5Gi", "10Gi"]


def test_a_size_picked_for_another_profile_is_not_shown(catalog):
    made = profile(**option("from_policy"))
    assert list(generated(made, catalog, picked={"profile": "other", "memory": "12Gi"})) == FEW


@pytest.mark.parametrize("known", [NOTHING, catalog_of(device_classes(), [])], ids=["unread", "no such device now"])
def test_while_no_device_is_known(known):
    fallback = profile(**option({"from_policy": {"fallback": ["20Gi", "5Gi"], "default": "20Gi"}}))
    choices = generated(fallback, known)
    assert list(choices) == ["5Gi", "20Gi"]
    assert default_of(choices) == ["20Gi"]
    assert list(generated(fallback, known, picked={"memory": "15Gi"})) == ["5Gi", "15Gi", "20Gi"], "picked before"
    assert list(generated(profile(**option("from_policy")), known)) == ["10Gi"], "the profile's own amount"

    nothing = profile({"gpu": {"device_class": SHARE}}, **option({"from_policy": {"capacity": "memory"}}))
    (shown,) = form_profiles([nothing], known, {})
    (only,) = shown["profile_options"]["memory"]["choices"].values()
    assert only["display_name"].startswith("The sizes are not known at the moment")
    assert unavailable_choice(shown, {}) == only["unavailable"]
    assert unavailable_choice(shown, {"memory": "unknown"}) == only["unavailable"]
    (again,) = form_profiles([nothing], known, {}, picked={"memory": "15Gi"})
    assert unavailable_choice(again, {"memory": "15Gi"}) == ""


POLICY = "profile_list[0].profile_options.memory.choices"


def test_a_wrong_profile_is_reported_and_harms_no_form(catalog):
    @all_of_them(
        "claims, choices, path",
        [
            ({}, "from_policy", f"{POLICY}.claim"),
            ({"gpu": {"device_class": SHARE}}, "from_policy", f"{POLICY}.capacity"),
            ({"a": {"device_class": SHARE}, "b": {"device_class": SHARE}}, "from_policy", f"{POLICY}.claim"),
            (LONG, {"from_policy": {"capacity": "memory"}}, f"{POLICY}.from_policy.request"),
            (LONG, {"from_policy": {"request": "x", "capacity": "memory"}}, f"{POLICY}.from_policy.request"),
            (ALTERNATIVES, {"from_policy": {"capacity": "memory"}}, f"{POLICY}.from_policy.request"),
            ({"gpu": {"template": "x"}}, {"from_policy": {"capacity": "memory"}}, f"{POLICY}.from_policy.claim"),
            (None, {"from_policy": {"at_most": 1}}, f"{POLICY}.from_policy.at_most"),
            (None, {"from_policy": {"largest": "10GB"}}, f"{POLICY}.from_policy.largest"),
            (None, {"from_policy": {"fallback": ["5Gi", "x"]}}, f"{POLICY}.from_policy.fallback[1]"),
            (None, {"from_policy": {"biggest": "5Gi"}}, f"{POLICY}.from_policy.biggest"),
            (None, {"from_policy": {"claim": "other"}}, f"{POLICY}.from_policy.claim"),
        ],
    )
    def check(claims, choices, path):
        made = profile(claims, **option(choices))
        assert path in [problem.path for problem in form_problems([made], {})]
        assert path in [problem.path for problem in profile_list_problems([made])]
        assert generated(made, catalog) == {}

    check()


def test_lists_mappings_and_values_that_are_no_list(catalog):
    made = profile(**option("from_policy"))
    assert has_policy_choices([profile(), made])
    assert has_policy_choices({"a": made})
    assert not has_policy_choices([profile(), None])
    assert form_profiles({"a": made}, catalog, {})["a"]["profile_options"]["memory"]["choices"].keys() == set(FEW)
    junk = [None, 5, {}, {"profile_options": 5}, {"profile_options": {"x": None, "y": {"choices": 5}}}]
    assert form_profiles(junk, catalog, {}, texts=FormTexts()) == junk
    assert form_profiles(None, catalog, {}) is None


# --- texts ---------------------------------------------------------------------------------------------------------


def shown_by(made, catalog, **texts):
    (shown,) = form_profiles([made], catalog, {}, texts=FormTexts(**texts))
    return shown


def test_how_long_a_server_may_run(catalog):
    def lifetime(choice):
        seconds = choice.settings.get("devices_lifetime", 0)
        return f"{seconds // 3600} h" if seconds else ""

    def limited(name, seconds):
        return {"display_name": name, "kubespawner_override": {"devices_lifetime": seconds}}

    made = profile(**option({"all": choice({}, "All"), "half": choice({}, "Half")}))
    assert shown_by(made, catalog, lifetime=lifetime) == made
    made["kubespawner_override"]["devices_lifetime"] = 8 * 3600
    shown = shown_by(made, catalog, lifetime=lifetime)
    assert shown["description"] == "A server ends after 8 h, used or not."
    assert shown["profile_options"] == made["profile_options"], "it is said once"
    choices = {
        "all": limited("<b>All</b>", 2 * 3600),
        "day": choice({}, "Day", default=True),
        "free": limited("Any", 0),
    }
    shown = shown_by({**made, **option(choices)}, catalog, lifetime=lifetime)
    assert shown["description"] == "A server usually ends after 8 h, used or not."
    names = [each["display_name"] for each in shown["profile_options"]["memory"]["choices"].values()]
    assert names == ["<b>All</b> (ends after 2 h)", "Day", "Any (without end)"]


def test_amounts_of_a_profile_and_of_its_choices(catalog):
    twelve = {"gpu": {"device_class": SHARE, "capacity": {"memory": "12Gi"}}}
    assert shown_by(profile(twelve), catalog)["description"] == "15 GiB will be reserved."
    assert shown_by(profile(twelve, description="<b>A</b> share."), catalog)["description"] == (
        "<b>A</b> share. 15 GiB will be reserved."
    )
    assert shown_by(profile(twelve), catalog, amounts=False) == profile(twelve)
    assert shown_by(profile(twelve), NOTHING) == profile(twelve)
    assert shown_by(profile(), catalog) == profile(), "no sentence where the reserved amount is the requested one"

    sizes = {size: choice({"gpu": {"capacity": {"memory": size}}}, size) for size in ("5Gi", "12Gi")}
    shown = shown_by(profile(twelve, **option(sizes)), catalog)
    assert "description" not in shown
    assert [each["display_name"] for each in shown["profile_options"]["memory"]["choices"].values()] == [
        "5Gi",
        "12Gi (15 GiB will be reserved)",
    ]
    assert shown["slug"] == "gpu"
    assert shown["display_name"] == "GPU"


def test_amounts_of_several_capacities_are_named(catalog):
    made = profile(
        {
            "gpu": {"device_class": SHARE, "capacity": {"memory": "12Gi"}},
            "nic": {"device_class": NIC, "capacity": {"bandwidth": "150M", "vlans": 1}},
        }
    )
    assert shown_by(made, catalog)["description"] == "15 GiB, 200 Mbit/s of bandwidth will be reserved."


def test_a_choice_that_leads_to_another_device_shows_the_difference(catalog):
    kinds = {name: choice({"gpu": {"device_class": name}}, name) for name in (SHARE, "gpu.example.com")}
    shown = shown_by(profile(**option(kinds)), catalog)
    names = [each["display_name"] for each in shown["profile_options"]["memory"]["choices"].values()]
    assert names == [SHARE, "gpu.example.com (40 GiB to 80 GiB will be reserved)"]


def test_sentences_are_said_once_and_escaped(catalog):
    hostile = '<img src=x onerror="alert(1)">'
    shown = shown_by(profile(description="Mine."), catalog, enforcements=lambda claim: [hostile, hostile])
    assert shown["description"] == f"Mine. {html.escape(hostile)}"


def test_sentences_that_differ_stand_with_the_choices_too(catalog):
    def sentences(claim):
        return [f"As {claim.requests[0].device_class} does."]

    kinds = {name: choice({"gpu": {"device_class": name}}, name) for name in (SHARE, "gpu.example.com")}
    shown = shown_by(profile(**option(kinds)), catalog, enforcements=sentences)
    assert shown["description"] == f"As {SHARE} does. As gpu.example.com does."
    choices: Mapping = shown["profile_options"]["memory"]["choices"]
    assert choices[SHARE]["description"] == f"As {SHARE} does."


def test_names_of_capacities_are_escaped():
    """The API server refuses such a name; nothing in the page may depend on that."""
    hostile = "<b>x</b>"
    (device_class, *_), (part, *_) = device_classes(), copy.deepcopy(resource_slices())
    for device in part["spec"]["devices"]:
        device["capacity"] = {"a/memory": device["capacity"]["memory"], hostile: {"value": "1G"}}
    known = catalog_of([device_class], [part])
    claims = {"gpu": {"device_class": SHARE, "capacity": {"a/memory": "12Gi"}}}
    assert shown_by(profile(claims), known)["description"] == "15 GiB will be reserved."


# --- the document --------------------------------------------------------------------------------------------------

DOCUMENT = (Path(__file__).parents[3] / "docs" / "reference" / "profiles.md").read_text()


def documented(heading):
    section = DOCUMENT.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return [profile for block in re.findall(r"```yaml\n(.+?)```", section, re.S) for profile in yaml.safe_load(block)]


def test_the_documents_examples(catalog):
    first, second = documented("Choices from the device")
    assert profile_list_problems([first, second]) == []
    assert list(generated(first, catalog)) == FEW
    assert default_of(generated(first, catalog)) == ["10Gi"]
    choices = generated(second, catalog)
    assert list(choices) == ["5Gi", "10Gi", "15Gi", "20Gi", "whole"]
    assert default_of(choices) == ["5Gi"]
    assert list(generated(second, NOTHING)) == ["5Gi", "10Gi", "whole"]

    (limits,) = documented("Extended resources")
    assert profile_list_problems([limits]) == []
    (listed,) = list_choices([limits], {})
    classes = [DeviceClass("gpu", extended_resource_name="example.com/gpu")]
    wanted = present(listed.choice).plan.extended_resources
    assert wanted.claim_spec(classes) is not None
    assert wanted.claim_spec(()) is None


def test_the_document_has_all_keys():
    section = DOCUMENT.partition("## Choices from the device\n")[2].partition("\n## ")[0]
    assert [key for key in POLICY_KEYS if f"`{key}" not in section] == []
