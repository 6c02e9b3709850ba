"""The spawn form as JupyterHub gets it, and the options that it sends; with an API server and without one."""

from __future__ import annotations

import asyncio
import contextlib
import html
import re

import pytest

from dra_spawner.devcluster.demo.example_nodes import device_classes, resource_slices
from dra_spawner.devcluster.embedded_cluster import EmbeddedCluster
from dra_spawner.dra.model.objects import DeviceClass, ResourceSlice
from dra_spawner.spawner.devices.reader import KnownDevices
from dra_spawner.spawner.server_context import parts_of
from dra_spawner.spawner.spawn_refusal import OptionsRefused
from tests.all_of_them import all_of_them
from tests.spawner.hub_side import HubSide, end_hub_side, kubernetes_of
from tests.spawner.service_stand_in import ServiceStandIn, profile_items, service_of_the_hub

SHARE = "gpu-share.example.com"
SIZES = ["5Gi", "10Gi", "15Gi", "20Gi", "25Gi", "30Gi", "35Gi", "40Gi"]


def profile(memory="10Gi", choices="from_policy", **more):
    claims = {"gpu": {"device_class": SHARE, "capacity": {"memory": memory}}}
    options = {"memory": {"display_name": "GPU memory", "choices": choices}} if choices else {}
    override = {"kubespawner_override": {"device_claims": claims}, "profile_options": options}
    return {"display_name": "Share", "slug": "share", **override, **more}


def options_of(form):
    return re.findall(r'<option value="([^"]*)" (selected)?(?: data-label="[^"]*")?>([^<]*)</option>', form)


async def chosen(spawner, **user_options):
    spawner.user_options = user_options
    spawner.clear_state()
    await spawner.load_user_options()
    return spawner.device_claims["gpu"]["capacity"]["memory"]


@pytest.fixture
async def hub(tmp_path):
    """HubSide of the embedded cluster with the demo's devices."""
    async with EmbeddedCluster(tmp_path, run_pods=False) as cluster:
        cluster.publish([*device_classes(), *resource_slices()])
        with kubernetes_of(cluster.kubeconfig):
            yield HubSide(cluster.kubeconfig, "jupyterhub")
            await end_hub_side()


@all_of_them("as_function", {"list": False, "function": True})
async def test_generated_choices_come_back_as_they_were_shown(hub, as_function):
    profiles = [profile()]
    hub.spawner_config.profile_list = (lambda spawner: profiles) if as_function else profiles
    spawner = hub.user("ada").spawner
    form = await spawner.get_options_form()
    assert [value for value, _, _ in options_of(form)] == SIZES
    assert ("10Gi", "selected", "10 GiB") in options_of(form)

    returned = spawner.options_from_form({"profile": ["share"], "profile-option-share--memory": ["20Gi"]})
    assert await chosen(spawner, **returned) == "20Gi"
    assert await chosen(spawner, profile="share") == "10Gi"
    assert await chosen(spawner) == "10Gi"
    assert await chosen(spawner, profile="share", memory="12Gi") == "12Gi"
    form = await spawner.get_options_form()
    assert ("12Gi", "selected", "12 GiB (15 GiB will be reserved)") in options_of(form), "the earlier choice"
    for size in ("50Gi", "10240Mi", "nothing"):
        with pytest.raises(OptionsRefused):
            await chosen(spawner, profile="share", memory=size)


async def test_a_size_can_be_the_first_thing_that_is_asked_of_a_hub(hub):
    """By the REST API, before anybody has opened the form."""
    hub.spawner_config.profile_list = [profile()]
    assert await chosen(hub.user("ada").spawner, profile="share", memory="35Gi") == "35Gi"


async def test_amounts_can_be_turned_off(hub):
    hub.spawner_config.profile_list = [profile("12Gi", choices=None)]
    assert "15 GiB will be reserved." in await hub.user("ada").spawner.get_options_form()
    hub.spawner_config.form_shows_amounts = False
    assert "reserved" not in await hub.user("bob").spawner.get_options_form()


async def test_without_profiles_there_is_no_form(nowhere):
    assert not await nowhere.user("ada").spawner.get_options_form()


async def test_an_api_server_that_does_not_answer_leaves_a_form(nowhere):
    fallback = {"from_policy": {"fallback": ["5Gi", "20Gi"]}}
    nowhere.spawner_config.profile_list = [profile(choices=fallback), profile("12Gi", None, slug="plain")]
    spawner = nowhere.user("ada").spawner
    form = await spawner.get_options_form()
    assert [text for _, _, text in options_of(form)] == ["5 GiB", "20 GiB"]
    assert "reserved" not in form
    assert await chosen(spawner, profile="share", memory="20Gi") == "20Gi"
    assert await chosen(spawner, profile="share", memory="15Gi") == "15Gi", "picked when more was known"


async def test_a_choice_of_unknown_sizes_is_refused_with_a_sentence(nowhere):
    unknown = {"from_policy": {"capacity": "memory"}}
    made = profile(choices=unknown)
    made["kubespawner_override"]["device_claims"]["gpu"].pop("capacity")
    nowhere.spawner_config.profile_list = [made]
    spawner = nowhere.user("ada").spawner
    assert "The sizes are not known at the moment" in await spawner.get_options_form()
    for options in ({}, {"profile": "share"}, {"profile": "share", "memory": "unknown"}):
        with pytest.raises(OptionsRefused, match="The sizes are not known at the moment"):
            await chosen(spawner, **options)


async def test_a_function_may_not_give_two_profiles_one_name(nowhere, caplog):
    """The user gets neither, instead of the first; other profiles of the list start, and the form's log names both."""
    plain = [profile(choices=None), profile("5Gi", None), profile("20Gi", None, slug="other")]
    nowhere.spawner_config.profile_list = lambda spawner: plain
    spawner = nowhere.user("ada").spawner
    await spawner.get_options_form()
    assert "Wrong device profile of a function: profile_list[1].slug: found 'share'" in caplog.text
    assert await chosen(spawner, profile="other") == "20Gi"
    with pytest.raises(OptionsRefused, match="found 'share'; allowed: a slug of its own"):
        await chosen(spawner, profile="share")
    plain[1:] = [profile("5Gi", None, slug="b", default=True), profile("20Gi", None, slug="c", default=True)]
    assert await chosen(spawner, profile="b") == "5Gi"
    with pytest.raises(OptionsRefused, match="one default profile"):
        await chosen(spawner)


@pytest.mark.promise("Hostile names and options stay text in the form.")
async def test_hostile_names_of_devices_and_hostile_options_stay_text(nowhere, monkeypatch):
    """A later API server may accept names that the present one refuses."""
    hostile = "</select><script>alert(1)</script>"
    classes, slices = device_classes(), resource_slices()[:1]
    for device in slices[0]["spec"]["devices"]:
        device["name"] = hostile
        device["capacity"] = {hostile: device["capacity"]["memory"], "memory": device["capacity"]["memory"]}
    spawner = nowhere.user("ada").spawner
    parts_of(spawner).server.devices.devices.put(
        KnownDevices(
            {each["metadata"]["name"]: DeviceClass.from_json(each) for each in classes},
            tuple(map(ResourceSlice.from_json, slices)),
        )
    )
    nowhere.spawner_config.profile_list = [profile("12Gi", choices=None), profile(slug="other", default=True)]
    spawner = nowhere.user("ada").spawner
    monkeypatch.setattr(
        "dra_spawner.profiles.drivers.registry.share_enforcements",
        lambda claim, facts: {"gpu": type("Share", (), {"sentence": f"Shared as {hostile}."})},
    )
    spawner.user_options = {"profile": "other", "memory": hostile}
    form = await spawner.get_options_form()
    assert hostile not in form
    assert html.escape(f"Shared as {hostile}.") in form
    assert "15 GiB will be reserved." in form


PLAIN = [
    {"display_name": "CPU", "slug": "cpu"},
    {
        "display_name": "GPU",
        "slug": "gpu",
        "profile_options": {
            "size": {"display_name": "Size", "choices": {"s": {"display_name": "S"}, "l": {"display_name": "L"}}}
        },
    },
]


@pytest.fixture
async def service(nowhere):
    """ServiceStandIn of the hub without a cluster, whose devices are not asked for."""
    nowhere.spawner_config.profile_list = PLAIN
    async with ServiceStandIn().listening() as service:
        with service_of_the_hub(service.url):
            yield service


def shown_in(form):
    return {
        "profiles": re.findall(r'class="dra-availability[^>]*data-state="([^"]*)"', form),
        "options": [text for _, _, text in options_of(form)],
    }


@pytest.mark.promise("The form says how soon each choice runs.")
async def test_the_form_says_how_soon_each_choice_runs(nowhere, service):
    async def answer(_):
        return profile_items(cpu="free", gpu="after-preemption", **{"gpu/size=l": "never"})

    service.profiles = answer
    spawner = nowhere.user("ada").spawner
    # A form waits 0.3 s at most, which is little on a machine that does other things.
    assert (await parts_of(spawner).form.availability.latest(20)).age_seconds is not None
    assert shown_in(await spawner.get_options_form()) == {
        "profiles": ["free", "after-preemption"],
        "options": ["S · free in a moment", "L · never"],
    }
    assert list((await parts_of(spawner).form.choices_of_form()).names()) == ["cpu", "gpu", "gpu/size=l"]
    assert list((await parts_of(nowhere.user("bob").spawner).form.choices_of_form()).names()) == [
        "cpu",
        "gpu",
        "gpu/size=l",
    ]


@pytest.mark.promise("The form is there whatever the service does.")
@pytest.mark.parametrize("fault", ["slow", "away", "older"])
async def test_a_form_is_there_whatever_the_service_does(nowhere, service, fault):
    """A service that never answers, too."""
    ended = asyncio.Event()

    async def answer(_):
        if fault == "slow":
            await ended.wait()
        return {"items": [{"name": "cpu", "availability": {"state": "free", "node": "a", "reason": "free"}}]}

    service.profiles = answer
    spawner = nowhere.user("ada").spawner
    await parts_of(spawner).server.devices.learn()
    with contextlib.ExitStack() as stack:
        if fault == "away":
            stack.enter_context(service_of_the_hub("http://127.0.0.1:1"))
        form = await spawner.get_options_form()
    ended.set()
    assert shown_in(form)["profiles"] == ["unknown", "unknown"]
    assert shown_in(form)["options"] == ["S · not known", "L · not known"]


async def test_the_last_choice_is_remembered_after_a_failed_start_and_by_a_new_hub(nowhere):
    nowhere.spawner_config.profile_list = PLAIN
    user = nowhere.user("ada")
    user.spawner.orm_spawner.user_options = {"profile": "gpu", "size": "l"}
    nowhere.db.commit()
    spawner = user.get_spawner("", replace_failed=True)
    spawner.user_options = dict(spawner.orm_spawner.user_options)
    form = await spawner.get_options_form()
    assert ("l", "selected", "L") in options_of(form)
    assert re.findall(r'value="(\w+)"[^>]*checked', form) == ["gpu"]


@all_of_them("stale", [{"profile": "gone"}, {"profile": "gpu", "size": "xl"}, ["gpu"], {"profile": ["gpu"]}, {"x": 1}])
async def test_options_that_are_no_longer_valid_leave_the_defaults(nowhere, stale):
    nowhere.spawner_config.profile_list = PLAIN
    spawner = nowhere.user("ada").spawner
    spawner.user_options = stale
    form = await spawner.get_options_form()
    assert ("s", "selected", "S") in options_of(form)
    assert re.findall(r'value="(\w+)"[^>]*checked', form) == ["cpu"]


async def test_an_administrators_template_gets_the_labels_as_text(nowhere, service):
    template = (
        "{% for p in profile_list %}[{{ p.slug }}: {{ p.description }}"
        "{% for o in (p.profile_options or {}).values() %}{% for c in o.choices.values() %} {{ c.display_name }},"
        "{% endfor %}{% endfor %}]{% endfor %}"
    )
    nowhere.spawner_config.profile_form_template = template
    form = await nowhere.user("ada").spawner.get_options_form()
    assert form == ("[cpu: Availability: not known.][gpu: Availability: not known. S · not known, L · not known,]")


@pytest.mark.promise("The form of jupyterhub-fancy-profiles shows availability, too.")
async def test_fancy_profiles_get_texts_and_the_script(nowhere, service):
    fancy_profiles = pytest.importorskip("jupyterhub_fancy_profiles")
    nowhere.spawner_config.additional_profile_form_template_paths = fancy_profiles.TEMPLATE_PATHS
    form = await nowhere.user("ada").spawner.get_options_form()
    assert "fancy-profiles/static" in form
    assert '"S \\u00b7 not known"' in form
    assert "dra-spawner-form-data" in form
