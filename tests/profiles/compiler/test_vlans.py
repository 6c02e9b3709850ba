"""Assignment of VLANs: the policy, the leases, and sentences for users without a VLAN."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_spawner.common.json_types import JsonObject
from dra_spawner.profiles.compiler.vlan_policy import MappedVlan, OwnerKind, VlanPolicy, parse_vlan_policy
from dra_spawner.profiles.compiler.vlans import (
    CLOCK_SKEW,
    Holder,
    Leases,
    LeasesCorrupt,
    VlanAssignment,
    VlanPod,
    VlanRefusal,
    VlanRefused,
    assign,
    contested,
    leases_data,
    leases_from_data,
    reconcile,
    release,
    vlan_owner,
)
from dra_spawner.profiles.syntax.problems import ProfileError
from tests.all_of_them import all_of_them
from tests.presence import present

NOW = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
LONG_AGO = NOW - timedelta(days=1)

# The policy


def policy_of(value: JsonObject) -> VlanPolicy:
    return present(parse_vlan_policy(value))


@pytest.mark.parametrize("nothing", [None, {}])
def test_no_policy(nothing):
    assert parse_vlan_policy(nothing) is None


def test_a_mapping_of_users():
    policy = policy_of({"mapping": {"ada": 42, "bob": {"id": 43, "address": "10.43.0.7/24", "gateway": "10.43.0.1"}}})
    assert policy.by is OwnerKind.USER
    assert policy.mapping["ada"] == MappedVlan(42)
    assert policy.mapping["bob"] == MappedVlan(43, (("address", "10.43.0.7/24"), ("gateway", "10.43.0.1")))
    assert not policy.allocates


@pytest.mark.parametrize(
    ("value", "vlans"),
    [
        pytest.param("100-103", (100, 101, 102, 103), id="from to"),
        pytest.param("100 - 101, 200,300-300", (100, 101, 200, 300), id="several"),
        pytest.param(7, (7,), id="one"),
        pytest.param("7", (7,), id="one as text"),
        pytest.param([7, "5-6", "7"], (5, 6, 7), id="a list"),
        pytest.param("1-4094", tuple(range(1, 4095)), id="all there are"),
    ],
)
def test_ranges(value, vlans):
    assert policy_of({"range": value}).vlans == vlans


def test_excluded_and_mapped_vlans_are_never_given():
    policy = policy_of({"range": "1-9", "exclude": ["2-3", 9], "mapping": {"ada": 5, "bob": 50}})
    assert policy.vlans == (1, 4, 6, 7, 8)


def test_groups_are_those_of_the_mapping_in_its_order():
    policy = policy_of({"by": "group", "mapping": {"maths": 2, "physics": 1}})
    assert policy.groups == ("maths", "physics")
    assert policy.group_of({"physics", "maths", "other"}) == "maths"
    assert policy.group_of({"other"}) is None


def test_null_removes_an_entry():
    assert policy_of({"mapping": {"ada": None, "bob": 4}, "range": None}).mapping == {"bob": MappedVlan(4)}


@all_of_them("value, path, allowed", {
    "a list": ([1], "vlans", "by: user"),
    "by": ({"by": "team", "range": 5}, "vlans.by", "user or group"),
    "typo": ({"rnage": 5}, "vlans.rnage", "range"),
    "nothing to give": ({"by": "user"}, "vlans", "mapping or range"),
    "downwards": ({"range": "100-50"}, "vlans.range", "from 1 to 4094"),
    "0": ({"range": "0-5"}, "vlans.range", "from 1 to 4094"),
    "4095": ({"range": "4094-4095"}, "vlans.range", "from 1 to 4094"),
    "4095 as a number": ({"range": 4095}, "vlans.range", "from 1 to 4094"),
    "a boolean": ({"range": True}, "vlans.range", "from 1 to 4094"),
    "text": ({"range": "1-9;rm"}, "vlans.range", "from 1 to 4094"),
    "other digits": ({"range": "٣"}, "vlans.range", "from 1 to 4094"),
    "a list in a list": ({"range": [[1]]}, "vlans.range[0]", "from 1 to 4094"),
    "in a list": ({"range": ["1", "x"]}, "vlans.range[1]", "from 1 to 4094"),
    "all excluded": ({"range": "5-6", "exclude": "5-6"}, "vlans.range", "neither excluded"),
    "an empty range": ({"range": [], "mapping": {"a": 1}}, "vlans.range", "neither excluded"),
    "a number as text": ({"mapping": {"ada": "42"}}, "vlans.mapping.ada", "from 1 to 4094"),
    "mapped 0": ({"mapping": {"ada": 0}}, "vlans.mapping.ada", "from 1 to 4094"),
    "mapped typo": ({"mapping": {"ada": {"vlan": 1}}}, "vlans.mapping.ada.vlan", "id, address"),
    "address without prefix": ({"mapping": {"ada": {"id": 1, "address": "10.0.0.1"}}}, "vlans.mapping.ada.address", "length of its prefix"),
    "subnet with host bits": ({"mapping": {"ada": {"id": 1, "subnet": "10.0.0.1/24"}}}, "vlans.mapping.ada.subnet", "a network"),
    "gateway": ({"mapping": {"ada": {"id": 1, "gateway": "gw"}}}, "vlans.mapping.ada.gateway", "IP address"),
    "mapping a list": ({"mapping": [42]}, "vlans.mapping", "a mapping"),
    "mapping of numbers": ({"mapping": {7: 42}}, "vlans.mapping.7", "text"),
    "groups by user": ({"groups": ["a"], "range": 5}, "vlans.groups", "by: group only"),
    "no groups": ({"by": "group", "range": 5}, "vlans.groups", "list of the groups"),
    "empty groups": ({"by": "group", "range": 5, "groups": []}, "vlans.groups", "at least one"),
    "groups as text": ({"by": "group", "range": 5, "groups": "a"}, "vlans.groups", "a list of names"),
    "a group's name": ({"by": "group", "range": 5, "groups": [5]}, "vlans.groups[0]", "name of a group"),
    "group without VLAN": ({"by": "group", "mapping": {"a": 1}, "groups": ["a", "b"]}, "vlans.groups[1]", "no range"),
})  # fmt: skip
def test_refused_policies(value, path, allowed):
    with pytest.raises(ProfileError) as caught:
        parse_vlan_policy(value)
    assert path in [problem.path for problem in caught.value.problems]
    assert any(allowed in problem.allowed for problem in caught.value.problems)


# Owners of VLANs


def test_owners_by_user():
    assert vlan_owner(policy_of({"mapping": {"ada": 42}}), "ada", ()) == "ada"
    assert vlan_owner(policy_of({"range": 42}), "bob", ()) == "bob"
    refused = vlan_owner(policy_of({"mapping": {"ada": 42}}), "bob", ())
    assert refused == VlanRefused(VlanRefusal.NOT_MAPPED, "No VLAN is set up for you. An administrator can do that.")


def test_owners_by_group():
    policy = policy_of({"by": "group", "groups": ["maths", "physics"], "range": "1-2"})
    assert vlan_owner(policy, "ada", {"physics"}) == "physics"
    assert vlan_owner(policy, "ada", {"physics", "maths"}) == "maths"
    refused = vlan_owner(policy, "ada", {"art"})
    assert isinstance(refused, VlanRefused)
    assert refused.reason is VlanRefusal.NO_GROUP
    assert refused.sentence == "This choice is for members of groups maths or physics; you are not a member."


# The account

RANGE = {"range": "100-102"}


def holder(owner, server="hub/s", start="1", until=LATER, note=""):
    return Holder(owner, server, start, until, note)


def take(leases, name, policy=None, server=None, start="1"):
    return assign(leases, policy_of(policy or RANGE), name, server or f"hub/{name}", start, LATER)


def taken(leases, name, policy=None, **more):
    found = take(leases, name, policy, **more)
    assert isinstance(found, VlanAssignment), found
    return found


def test_each_owner_gets_a_vlan_of_its_own():
    leases: Leases = {}
    given = {}
    for name in ("ada", "bob", "eve"):
        found = taken(leases, name)
        leases, given[name] = found.leases, found.vlan
    assert sorted(given.values()) == [100, 101, 102]
    refused = take(leases, "dan")
    assert refused == VlanRefused(
        VlanRefusal.EXHAUSTED, "All 3 VLANs are in use. Please try again when another server has stopped."
    )
    again = taken(leases, "ada", server="hub/ada--second")
    assert again.vlan == given["ada"]
    assert len(again.leases[again.vlan]) == 2


def test_the_only_vlan():
    leases = taken({}, "ada", {"range": 7}).leases
    assert take(leases, "bob", {"range": 7}).sentence.startswith("The only VLAN is in use.")


def test_the_same_start_may_ask_again():
    first = taken({}, "ada")
    second = taken(first.leases, "ada")
    assert second == first


def test_an_owner_mostly_gets_the_same_vlan_again():
    policy = {"range": "1-4000"}
    assert {taken({}, "ada", policy).vlan for _ in range(3)} == {taken({9: (holder("user:bob"),)}, "ada", policy).vlan}


def test_a_mapped_user_gets_the_mapped_vlan():
    policy = {"range": "100-102", "mapping": {"ada": 42, "bob": 42}}
    found = taken({}, "ada", policy)
    assert found.vlan == 42
    assert taken(found.leases, "bob", policy).vlan == 42, "the administrator's word"
    strangers = {42: (holder("user:eve"),)}
    refused = take(strangers, "ada", policy)
    assert refused.reason is VlanRefusal.BUSY
    assert refused.sentence == "VLAN 42, which is set aside for you, is still in use by others. Please try again later."


def test_entries_of_an_administrator_are_respected():
    pinned = {100: (Holder("nobody", note="printer"),), 777: (Holder("user:ada"),)}
    assert taken(pinned, "ada").vlan == 777, "outside of the range"
    assert {taken(pinned, name).vlan for name in ("bob", "eve", "dan")} <= {101, 102}
    found = taken(pinned, "ada")
    assert release(found.leases, "hub/ada", "1", ()) == pinned
    assert reconcile(found.leases, (), NOW + timedelta(days=1)) == pinned


def test_where_others_are_nobody_is_added():
    both = {777: (Holder("user:ada"), holder("user:bob", "hub/bob"))}
    assert taken(both, "ada").vlan in (100, 101, 102)
    mixed = {100: (holder("user:ada", "hub/ada"), holder("user:bob", "hub/bob"))}
    assert taken(mixed, "ada", server="hub/ada--second").vlan in (101, 102)
    assert taken(mixed, "ada").vlan == 100, "the same start stays"


def test_a_vlan_of_another_range_is_not_used():
    leases = {50: (holder("user:ada", "hub/ada"),)}
    assert taken(leases, "ada", server="hub/ada--second").vlan in (100, 101, 102)


def test_groups_share():
    policy = {"by": "group", "groups": ["lab"], "range": "100-102"}
    found = taken({}, "lab", policy, server="hub/ada")
    assert taken(found.leases, "lab", policy, server="hub/bob").vlan == found.vlan
    assert {each.owner for each in found.leases[found.vlan]} == {"group:lab"}


def test_a_user_is_no_group_of_the_same_name():
    leases = taken({}, "lab", {"by": "group", "groups": ["lab"], "range": "100-102"}).leases
    assert taken(leases, "lab").vlan not in leases


POD = VlanPod(100, "user:ada", "hub/ada", "1")


@pytest.mark.parametrize(
    ("server", "start", "pods", "left"),
    [
        pytest.param("hub/ada", "1", (), {100: ["2"], 101: ["1"]}, id="one start"),
        pytest.param("hub/ada", "1", (POD,), {100: ["1", "2"], 101: ["1"]}, id="that very one has a pod"),
        pytest.param("hub/dan", "1", (), {100: ["1", "2"], 101: ["1"]}, id="a stranger"),
        pytest.param("", "1", (), {100: ["1", "2"], 101: ["1"]}, id="no server"),
        pytest.param("hub/bob", "1", (), {100: ["1", "2"]}, id="the last one"),
    ],
)
def test_release(server, start, pods, left):
    leases = {
        100: (holder("user:ada", "hub/ada", "1"), holder("user:ada", "hub/ada", "2")),
        101: (holder("user:bob", "hub/bob", "1"),),
    }
    found = release(leases, server, start, pods)
    assert {vlan: [each.start for each in holders] for vlan, holders in found.items()} == left


def test_the_vlan_of_a_start_under_way_is_not_freed():
    leases = {100: (holder("user:ada", until=NOW),)}
    assert reconcile(leases, (), NOW) == leases
    assert reconcile(leases, (), NOW + CLOCK_SKEW) == leases
    assert reconcile(leases, (), NOW + CLOCK_SKEW + timedelta(seconds=1)) == {}


def test_a_pod_keeps_its_vlan_however_old():
    leases = {100: (holder("user:ada", "hub/ada", until=LONG_AGO), holder("user:ada", "hub/ada", "0", until=LONG_AGO))}
    assert reconcile(leases, (POD,), NOW) == {100: (holder("user:ada", "hub/ada", until=LONG_AGO),)}


def test_pods_that_are_missing_are_entered():
    found = reconcile({}, (POD,), NOW)
    assert found == {100: (Holder("user:ada", "hub/ada", "1"),)}
    assert reconcile(found, (POD,), NOW) == found
    assert reconcile(found, (), NOW) == {}


def test_strangers_pods_are_not_entered_and_keep_what_the_hub_entered():
    """With a namespace for each user, anybody may mark pods elsewhere; a namespace may not have its label yet."""
    stranger, old = replace(POD, server="stranger/p", is_own=False), replace(POD, is_own=False)
    assert reconcile({}, (stranger,), NOW) == {}
    leases = {100: (holder("user:ada", "hub/ada", until=LONG_AGO),)}
    assert reconcile(leases, (stranger, old), NOW) == leases


def test_contested_vlans_are_reported_once():
    before = {100: (holder("user:bob"),)}
    after = reconcile(before, (POD,), NOW)
    assert contested(after, before) == (100,)
    assert contested(after, after) == ()
    assert contested(before, {}) == ()


# Storage of leases

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
times = st.none() | st.datetimes(timezones=st.just(UTC)).map(lambda time: time.replace(microsecond=0))
mores = st.sampled_from(["", '{"zone": [1, null]}'])
holders = st.builds(
    Holder, owner=texts, server=texts | st.just(""), start=texts | st.just(""), until=times, note=texts, more=mores
)
accounts = st.dictionaries(st.integers(1, 4094), st.lists(holders, min_size=1, max_size=3).map(tuple), max_size=4)


@given(accounts)
def test_leases_are_read_as_written(leases):
    assert leases_from_data(leases_data(leases)) == leases


def test_leases_are_readable_text():
    leases = {101: (Holder("user:ada", "hub/jupyter-ada", "0a1b2c3d", NOW),)}
    text = '[{"owner": "user:ada", "server": "hub/jupyter-ada", "start": "0a1b2c3d", "until": "2030-01-01T12:00:00+00:00"}]'
    assert leases_data(leases) == {"101": text}
    assert leases_from_data({"7": '[{"owner": "nobody"}]'}) == {7: (Holder("nobody"),)}
    assert leases_from_data(None) == {}


def test_fields_of_a_newer_release_stay():
    """After a rollback the older release still assigns and frees VLANs."""
    newer = {"owner": "user:ada", "server": "hub/ada", "start": "1", "zone": {"name": "a"}, "links": [1, None]}
    before = leases_from_data({"101": json.dumps([newer])})
    policy = policy_of({"range": "100-103"})
    bob = assign(before, policy, "bob", "hub/bob", "1", NOW)
    assert isinstance(bob, VlanAssignment)
    again = assign(bob.leases, policy, "ada", "hub/ada", "1", NOW)
    assert isinstance(again, VlanAssignment)
    assert again.vlan == 101
    written = [each for text in leases_data(again.leases).values() for each in json.loads(text)]
    assert {**newer, "until": NOW.isoformat(timespec="seconds")} in written
    assert "bob" in str(written)
    assert release(again.leases, "hub/ada", "1", ()) == release(bob.leases, "hub/ada", "1", ())


@all_of_them("data", {
    "a list": [],
    "no number": {"x": "[]"},
    "0": {"0": '[{"owner": "a"}]'},
    "4095": {"4095": '[{"owner": "a"}]'},
    "a zero before": {"042": '[{"owner": "a"}]'},
    "below 0": {"-1": '[{"owner": "a"}]'},
    "other digits": {"٣": '[{"owner": "a"}]'},
    "empty": {"7": ""},
    "null": {"7": None},
    "no JSON": {"7": "{"},
    "deep JSON": {"7": "[" * 100_000},
    "nobody": {"7": "[]"},
    "a mapping": {"7": "{}"},
    "text": {"7": '["user:ada"]'},
    "no owner": {"7": "[{}]"},
    "an empty owner": {"7": '[{"owner": ""}]'},
    "a number": {"7": '[{"owner": 5}]'},
    "typo": {"7": '[{"owner": "a", "sever": "x"}]'},
    "no time": {"7": '[{"owner": "a", "until": "soon"}]'},
    "no zone": {"7": '[{"owner": "a", "until": "2030-01-01T12:00:00"}]'},
    "a time beyond all": {"7": '[{"owner": "a", "until": "9999-12-31T23:59:59-12:00"}]'},
})  # fmt: skip
def test_leases_that_cannot_be_read_are_refused(data):
    with pytest.raises(LeasesCorrupt):
        leases_from_data(data)


@given(
    st.dictionaries(
        st.sampled_from(["7", "x", "4094"]), texts | st.from_regex(r'\[\{"owner": "[ab]?"[,}].{0,9}', fullmatch=True)
    )
)
def test_junk_is_refused_and_nothing_else_happens(data):
    try:
        leases = leases_from_data(data)
    except LeasesCorrupt:
        return
    assert leases_from_data(leases_data(leases)) == leases
