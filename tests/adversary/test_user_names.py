"""Hostile names of users, groups and servers, and hostile free text: their results in the cluster."""

from __future__ import annotations

import contextlib
import re

import pytest
from jupyterhub import orm
from kubernetes_asyncio.client import ApiClient

from dra_spawner import names
from dra_spawner.dra.cel.evaluation.device import CelDevice
from dra_spawner.dra.cel.selector import compile_selector
from dra_spawner.spawner import DRASpawner
from dra_spawner.spawner.server_context import parts_of
from dra_spawner.spawner.spawn_refusal import SpawnRefused
from tests.adversary.hostile_texts import NAMES, SERVERS, TEXTS
from tests.spawner.conftest import nowhere
from tests.spawner.hub_side import HubSide, end_hub_side, kubernetes_of

__all__ = ["nowhere"]

DRIVER = "x.example.com"
LABEL = re.compile(r"(?!.{64})([a-zA-Z0-9]([-._a-zA-Z0-9]*[a-zA-Z0-9])?)?")
#: Everything of a name that may come into parameters for a driver.
PARAMETERS = {
    "text": "{username}",
    "list": ["{user_server}", "{servername}", {"pod": "{pod_name}", "namespace": "{namespace}"}],
    "user": "{userid}",
    "vlan": "{vlan}",
}
OWN = {"requests": {"x": {"device_class": DRIVER}}, "config": [{"driver": DRIVER, "parameters": PARAMETERS}]}


def shared(by):
    return {"device_class": DRIVER, "shared": by}


@contextlib.asynccontextmanager
async def hub_of(cluster):
    """HubSide whose objects are really created; nothing of them is ever scheduled."""
    with kubernetes_of(cluster.admin_kubeconfig):
        side = HubSide(cluster.admin_kubeconfig, cluster.namespace)
        side.spawner_config.scheduler_name = "nobody"
        yield side
        await end_hub_side()


@pytest.fixture
async def hub(cluster):
    async with hub_of(cluster) as side:
        yield side


@pytest.fixture
async def embedded_hub(embedded_cluster):
    async with hub_of(embedded_cluster) as side:
        yield side


async def created(spawner):
    """Create everything that a start makes, the pod at last, as a start does."""
    spawner.clear_state()
    await spawner.load_user_options()
    pod = await spawner.get_pod_manifest()
    assert await spawner._make_create_pod_request(pod, 30)
    return pod


async def listed(cluster, plural):
    return (await cluster.admin.list(cluster.path(plural)))["items"]


async def test_users_never_meet_in_an_object(cluster, hub):
    hub.spawner_config.device_claims = {"own": OWN, "mine": shared({"by": "user"})}
    hub.spawner_config.vlans = {"range": "100-400"}
    hub.spawner_config.extra_labels = {"user": "{username}"}
    for name in NAMES:
        await created(hub.user(name).spawner)

    pods = await listed(cluster, "pods")
    templates = await listed(cluster, "resourceclaimtemplates")
    claims = [
        each for each in await listed(cluster, "resourceclaims") if each["metadata"]["name"].startswith("shared-")
    ]
    for objects in (pods, templates, claims):
        assert len(objects) == len(NAMES)
        for each in objects:
            assert all(LABEL.fullmatch(value) for value in each["metadata"]["labels"].values())
    for objects in (pods, templates):
        assert sorted(each["metadata"]["annotations"]["hub.jupyter.org/username"] for each in objects) == sorted(NAMES)
    scopes = [each["metadata"]["annotations"]["hub.jupyter.org/dra-shared-by"] for each in claims]
    assert sorted(scopes) == sorted(f"user:{name}" for name in NAMES)
    used = {
        each["spec"]["resourceClaims"][index][key]
        for each in pods
        for index, key in ((0, "resourceClaimTemplateName"), (1, "resourceClaimName"))
    }
    assert len(used) == 2 * len(NAMES)

    account = await cluster.admin.get(cluster.path("configmaps", names.VLANS_CONFIG_MAP))
    vlans = {each["metadata"]["labels"]["hub.jupyter.org/vlan"] for each in pods}
    assert len(vlans) == len(NAMES)
    assert len(account["data"]) >= 1
    check_parameters(cluster, templates, vlans)


def check_parameters(cluster, templates, vlans):
    """Parameters of drivers have the shape of the profile, and contain safe words only."""
    configs = [each["spec"]["spec"]["devices"]["config"] for each in templates]
    parameters = [config["opaque"]["parameters"] for (config,) in configs]
    for each in parameters:
        assert set(each) == set(PARAMETERS)
        assert type(each["user"]) is type(each["vlan"]) is int
        assert re.fullmatch(r"[a-z0-9-]{1,48}", each["text"])
        assert re.fullmatch(r"[a-z0-9-]{1,63}", each["list"][2]["pod"])
        assert each["list"][2]["namespace"] == cluster.namespace
    for value in (lambda each: each["text"], lambda each: each["user"], lambda each: each["vlan"]):
        assert len(set(map(value, parameters))) == len(NAMES)
    assert {str(each["vlan"]) for each in parameters} == vlans


async def test_groups_never_meet_in_an_object(embedded_cluster, embedded_hub):
    groups = [name for name in NAMES if name.isprintable()]  # others cannot be named in a profile
    embedded_hub.spawner_config.device_claims = {"own": OWN, "ours": shared({"by": "group", "group": groups})}
    embedded_hub.spawner_config.vlans = {"by": "group", "groups": groups, "range": "100-400"}
    for number, name in enumerate(groups):
        await created(embedded_hub.user(f"user{number}", name).spawner)
    claims = [
        each
        for each in await listed(embedded_cluster, "resourceclaims")
        if each["metadata"]["name"].startswith("shared-")
    ]
    scopes = [each["metadata"]["annotations"]["hub.jupyter.org/dra-shared-by"] for each in claims]
    assert sorted(scopes) == sorted(f"group:{name}" for name in groups)
    assert all(LABEL.fullmatch(value) for each in claims for value in each["metadata"]["labels"].values())
    labels = {each["metadata"]["labels"]["hub.jupyter.org/shared-by-group"] for each in claims}
    assert len(labels) == len(groups)
    vlans = {each["metadata"]["labels"]["hub.jupyter.org/vlan"] for each in await listed(embedded_cluster, "pods")}
    assert len(vlans) == len(groups)


async def test_servers_of_a_user_never_meet_in_an_object_nor_those_of_others(embedded_cluster, embedded_hub):
    embedded_hub.spawner_config.device_claims = {"own": OWN}
    embedded_hub.spawner_config.vlans = {"range": "100-400"}
    servers = [(user, server) for user in ("ada", "ada--a", "a") for server in ("", *SERVERS)]
    for user, server in servers:
        await created(embedded_hub.spawner(embedded_hub.user(user), server))
    pods = await listed(embedded_cluster, "pods")
    marks = ("hub.jupyter.org/username", "hub.jupyter.org/servername")
    found = [tuple(each["metadata"]["annotations"].get(mark, "") for mark in marks) for each in pods]
    assert sorted(found) == sorted(servers)
    assert len({each["metadata"]["labels"]["hub.jupyter.org/vlan"] for each in pods}) == 3


async def test_no_name_gets_into_a_group_or_a_vlan_of_another(nowhere):
    """Names that say they are another's."""
    nowhere.spawner_config.device_claims = {"ours": shared({"by": "group", "group": "physics"})}
    for name in ("physics", "group:physics", "user:physics", "Physics", "physics ", "physics\n", "\u0440hysics"):
        for user in (nowhere.user(name), nowhere.user("eve", *({name} - {"physics"}))):
            with pytest.raises(SpawnRefused, match="for members of physics") as caught:
                await user.spawner.load_user_options()
            assert caught.value.status_code == 403
            user.orm_user.groups.clear()
    nowhere.spawner_config.device_claims = {"own": OWN}
    nowhere.spawner_config.vlans = {"mapping": {"ada": 42}}
    for name in ("Ada", "ada ", "ada\n", "user:ada", "\u0430da", "ada\x00"):
        with pytest.raises(SpawnRefused, match="No VLAN is set up for you"):
            await nowhere.user(name).spawner.load_user_options()
    assert orm.User.find(nowhere.db, "ada") is None


# --- free text -------------------------------------------------------------------------------------------------------


def typed(where, regex):
    """A profile with one option, which accepts any text by a too generous pattern."""
    claims = {"requests": {"x": where}}
    unlisted = {"enabled": True, "validation_regex": regex, "kubespawner_override": {"device_claims": {"a": claims}}}
    option = {"display_name": "Text", "choices": {"none": {"display_name": "None"}}, "unlisted_choice": unlisted}
    config = [{"driver": DRIVER, "parameters": {"user": "{username}"}}]
    override = {"device_claims": {"a": {"requests": {"x": {"device_class": DRIVER}}, "config": config}}}
    return {
        "display_name": "Typed",
        "slug": "typed",
        "kubespawner_override": override,
        "profile_options": {"o": option},
    }


async def refusal_of(spawner):
    try:
        await spawner.load_user_options()
    except SpawnRefused as refused:
        return refused


async def request_of(spawner, text):
    """The request for a text, and the driver's parameters; None if the text is refused with a sentence."""
    spawner.user_options = {"profile": "typed", "o--unlisted-choice": text}
    spawner.clear_state()
    problem = await refusal_of(spawner)
    if problem is not None:
        assert problem.status_code == 400
        assert len(str(problem)) < 500
        assert str(problem).isprintable()
        return None
    await spawner.get_pod_manifest()
    (template,) = parts_of(spawner).start.attempt.objects.templates.values()
    devices = template["spec"]["spec"]["devices"]
    assert [each["opaque"] for each in devices["config"]] == [{"driver": DRIVER, "parameters": {"user": "eve"}}]
    (request,) = devices["requests"]
    assert request["exactly"]["deviceClassName"] == DRIVER
    return request["exactly"]


def skeleton(expression):
    """CEL without the content of its string literals."""
    return re.sub(r'"(?:[^"\\]|\\.)*"', '""', expression)


def device(product):
    return CelDevice.from_device(DRIVER, {"productName": {"string": product}}, {}, False)


async def test_a_typed_product_is_one_literal_in_cel(nowhere):
    nowhere.spawner_config.profile_list = [typed({"product": "{value}"}, r"(?s).*")]
    spawner = nowhere.user("eve").spawner

    async def expression_of(text):
        request = await request_of(spawner, text)
        return request and request["selectors"][0]["cel"]["expression"]

    harmless = skeleton(await expression_of("A100"))
    expressions = {text: found for text in TEXTS if (found := await expression_of(text))}
    assert len(expressions) > 60
    for text, expression in expressions.items():
        assert skeleton(expression) == harmless, text
        selector = compile_selector(expression)
        assert selector.matches(device(text)), text
        assert selector.matches(device("another product")) is (text == "*"), text


async def test_a_typed_size_is_a_size(nowhere):
    nowhere.spawner_config.profile_list = [typed({"capacity": {"memory": "{value}"}}, r"(?s).*")]
    spawner = nowhere.user("eve").spawner
    accepted = {text for text in TEXTS if (request := await request_of(spawner, text)) and sizes(request) == {text}}
    assert accepted <= {"10Gi", "+10Gi", "123456", "1e3"}
    assert "10Gi" in accepted


def sizes(request):
    requested = request["capacity"]["requests"]
    assert all(
        re.fullmatch(r"[+]?[0-9.]+([KMGTPE]i?|[mkun]|[eE][0-9]+)?", each, re.ASCII) for each in requested.values()
    )
    return set(requested.values())


async def test_a_typed_text_is_not_expanded_again(nowhere):
    """In settings of KubeSpawner, where an administrator may let users type, too: KubeSpawner expands braces."""
    profile = typed({}, r"(?s).*")
    unlisted = profile["profile_options"]["o"]["unlisted_choice"]
    unlisted["kubespawner_override"] = {"environment": {"TEXT": "[{value}]"}, "image": "example.org/{value}"}
    nowhere.spawner_config.profile_list = [profile]
    spawner = nowhere.user("eve").spawner
    for text in TEXTS:
        if await request_of(spawner, text) is None:
            assert not text or len(text) > 1024 or set(text) & set("{}"), text
            continue
        pod = await spawner.get_pod_manifest()
        container = pod.spec.containers[0]
        assert next(each.value for each in container.env if each.name == "TEXT") == f"[{text}]"
        assert container.image == f"example.org/{text}"


class OwnSpawner(DRASpawner):
    """A class of a hub's own, which may read options of any name."""


#: Options that name settings, and what other code of a hub could take for something else.
OF_OTHER_CODE: tuple[dict[str, object], ...] = (
    {"device_claims": {"gpu": OWN}, "kubespawner_override": {"image": "evil"}, "image": "evil", "cmd": ["sh"]},
    {"__class__": "x", "user_options": {}, "steps": [], "attempt": None, "_dra": None},
    {"x" * 1_000_000: "y", "deep": [[[[{}]]]], "many": list(range(10_000))},
)


async def test_options_that_are_left_to_other_code_of_a_hub_bring_nothing(nowhere, caplog):
    """A hub without profiles, and one with a class of its own, leave names that no profile has to that code."""
    plain = {"display_name": "Plain", "slug": "plain"}
    for kind, profiles in ((DRASpawner, []), (OwnSpawner, [plain])):
        nowhere.spawner_class = kind
        nowhere.spawner_config.profile_list = profiles
        spawner, pods = nowhere.user("eve").spawner, []
        for options in ({}, *OF_OTHER_CODE, *({text: text} for text in TEXTS)):
            spawner.user_options = options
            spawner.clear_state()
            await spawner.load_user_options()
            pods.append(ApiClient().sanitize_for_serialization(await spawner.get_pod_manifest()))
            assert not parts_of(spawner).start.attempt.objects.templates
        assert all(pod == pods[0] for pod in pods)
        logged = [each.getMessage() for each in caplog.records if each.name != "asyncio"]
        assert all(len(each) < 1000 and each.isprintable() for each in logged)
    for options in ({"profile": text} for text in TEXTS if text):
        spawner.user_options = options
        refused = await refusal_of(spawner)
        assert refused is not None
        assert refused.status_code == 400, "what a profile reads is checked there, too"


async def test_typed_values_are_text_in_the_form(nowhere):
    """KubeSpawner 7.1 gives the page any value that was picked before."""
    nowhere.spawner_config.profile_list = [typed({"product": "{value}"}, r"(?s).*")]
    spawner = nowhere.user("eve").spawner
    for text in (each for each in TEXTS if set(each) & set("<>\"'`{$\\") and len(each) < 100):
        for options in (
            {"profile": "typed", "o--unlisted-choice": text},
            {"profile": text},
            {text: text},
            {"o": [text]},
        ):
            spawner.user_options = options
            page = await spawner.get_options_form()
            assert "profile-option-typed--o" in page
            for markup in ("<script>alert", "<img src=x", "<b>"):
                assert markup not in page
