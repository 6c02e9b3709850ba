"""Values of placeholders, and VLANs from a mapping, as a start uses them before its first request."""

from __future__ import annotations

import pytest
from jupyterhub import orm

from dra_spawner.spawner.hub_start.configuration_problems import configuration_problems
from dra_spawner.spawner.server_context import parts_of
from dra_spawner.spawner.spawn_refusal import SpawnRefused
from dra_spawner.spawner.steps.vlan import leases_of
from tests.all_of_them import all_of_them

CLASS = "vlan-cni.networking.x-k8s.io"


def interface(**vlan):
    return {"nic": {"device_class": CLASS, "vlan": {"id": "{vlan}", **vlan}}}


def claims_with(value):
    """Claims whose driver gets the parameter ``value``."""
    config = {"driver": "x.example.com", "parameters": {"a": value}}
    return {"a": {"requests": {"x": {"device_class": "x.example.com"}}, "config": [config]}}


async def parameters(spawner, **options):
    spawner.user_options = options
    spawner.clear_state()
    await spawner.load_user_options()
    await spawner.get_pod_manifest()
    (template,) = parts_of(spawner).start.attempt.objects.templates.values()
    (config,) = template["spec"]["spec"]["devices"]["config"]
    return config["opaque"]["parameters"]


async def vlan_of(spawner, **options):
    return (await parameters(spawner, **options))["config"]["plugins"][0]["vlanId"]


@all_of_them(
    "template, user, server, expected",
    {
        "a plain name": ("{username}", "ada", "", "ada"),
        "a name made safe": ("{username}", "Ada.L@example.org", "", "ada-l-example-org---9d7ee9de"),
        "a named server": ("{user_server}/{servername}", "ada", "work", "ada--work/work"),
        "the default server": ("[{servername}]", "ada", "", "[]"),
        "a name as it is": ("{unescaped_username}", "Ada.L@example.org", "", "Ada.L@example.org"),
        "a server's name as it is": ("{unescaped_servername}", "ada", "My_work", "My_work"),
        "the pod": ("{pod_name}.{namespace}", "ada", "", "jupyter-ada.jupyterhub"),
    },
)
async def test_values(nowhere, template, user, server, expected):
    nowhere.spawner_config.device_claims = claims_with(template)
    found = await parameters(nowhere.spawner(nowhere.user(user), server))
    if "---" in expected:
        assert found["a"].startswith(expected.partition("---")[0])
    else:
        assert found["a"] == expected


@all_of_them("user", ['a"b', "a b", "a\\b", "a{vlan}b", "a'b;c", "ä", "x" * 64, "-a", "a/../b"])
async def test_a_name_that_could_do_harm_is_refused_where_it_would_be_used_as_it_is(nowhere, user):
    nowhere.spawner_config.device_claims = claims_with("{unescaped_username}")
    with pytest.raises(SpawnRefused, match=r"uses \{unescaped_username\}, which must be a name of letters") as caught:
        await parameters(nowhere.user(user).spawner)
    assert caught.value.status_code == 403
    assert user not in str(caught.value)


@all_of_them("user", ['a"b', "a{vlan}b", "ä ö", "x" * 200, "a--b"])
async def test_every_name_may_be_used_when_it_is_made_safe(nowhere, user):
    nowhere.spawner_config.device_claims = claims_with("{username}")
    found = await parameters(nowhere.user(user).spawner)
    assert set(found["a"]) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


async def test_a_profile_may_change_vlans_and_the_next_one_does_not_inherit_it(nowhere):
    def profile(slug, **vlans):
        override = {"device_claims": interface(), **({"vlans": vlans} if vlans else {})}
        return {"display_name": slug, "slug": slug, "kubespawner_override": override}

    nowhere.spawner_config.vlans = {"mapping": {"ada": 42}}
    nowhere.spawner_config.profile_list = [profile("plain"), profile("own", mapping={"ada": 43})]
    spawner = nowhere.user("ada").spawner
    assert [await vlan_of(spawner, profile=slug) for slug in ("plain", "own", "plain")] == [42, 43, 42]


async def test_the_group_is_the_first_that_the_user_is_in(nowhere):
    nowhere.spawner_config.vlans = {
        "by": "group",
        "groups": ["Maths Dept", "lab"],
        "mapping": {"lab": 7, "Maths Dept": 8},
    }
    nowhere.spawner_config.device_claims = interface(ipam={"name": "{group}"})
    user = nowhere.user("ada")
    for name in ("lab", "Maths Dept"):
        group = orm.Group(name=name)
        nowhere.db.add(group)
        group.users.append(user.orm_user)
        nowhere.db.commit()
        found = (await parameters(user.spawner))["config"]["plugins"][0]
        assert found["vlanId"] == {"lab": 7, "Maths Dept": 8}[name]
        assert found["ipam"]["name"].startswith(name.lower().replace(" ", "-"))


@all_of_them(
    "vlans, claims, sentence",
    {
        "no vlans": ({}, interface(), "only with DRASpawner.vlans set"),
        "wrong vlans": ({"range": "9-1"}, interface(), "found '9-1'"),
        "not mapped": ({"mapping": {"bob": 5}}, interface(), "No VLAN is set up for you."),
        "no member": ({"by": "group", "mapping": {"lab": 5}}, interface(), "for members of group lab; you are not a member"),
        "no address": ({"mapping": {"ada": 5}}, interface(ipam={"a": "{address}"}), "needs the address of a VLAN, and none is configured for ada"),
        "no group": ({"mapping": {"ada": 5}}, interface(ipam={"a": "{group}"}), "needs the group"),
    },
)  # fmt: skip
async def test_refusals(nowhere, vlans, claims, sentence):
    nowhere.spawner_config.vlans = vlans
    nowhere.spawner_config.device_claims = claims
    with pytest.raises(SpawnRefused) as caught:
        await parameters(nowhere.user("ada").spawner)
    assert sentence in str(caught.value)


async def test_without_placeholders_vlans_do_not_matter(nowhere):
    nowhere.spawner_config.vlans = {"range": "9-1"}
    nowhere.spawner_config.device_claims = interface(id=5)
    spawner = nowhere.user("ada").spawner
    assert await vlan_of(spawner) == 5
    assert [problem.path for problem in configuration_problems(parts_of(spawner).server)] == ["vlans.range"]


async def test_with_a_namespace_for_each_user_the_account_is_the_hubs(nowhere):
    spawner = nowhere.user("ada").spawner
    assert (leases_of(parts_of(spawner).server).namespace, leases_of(parts_of(spawner).server).pods_namespace) == (
        "jupyterhub",
        "jupyterhub",
    )
    nowhere.spawner_config.enable_user_namespaces = True
    other = nowhere.user("bob").spawner
    assert (leases_of(parts_of(other).server).namespace, leases_of(parts_of(other).server).pods_namespace) == (
        "default",
        None,
    )
