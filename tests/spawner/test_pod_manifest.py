"""From options to the pod and its templates, without a cluster."""

import re
from importlib.metadata import entry_points

import pytest
from kubernetes_asyncio.client import ApiClient
from kubespawner.slugs import is_valid_label
from prometheus_client import REGISTRY

from dra_spawner import names
from dra_spawner.names import SHARED_BY
from dra_spawner.spawner import DRASpawner
from dra_spawner.spawner.hub_start.configuration_problems import configuration_problems
from dra_spawner.spawner.server_context import parts_of
from dra_spawner.spawner.spawn_refusal import RefusalReason, SpawnRefused
from tests.all_of_them import all_of_them

GPU = {"device_class": "gpu.example.com", "capacity": {"memory": "10Gi"}}
NIC = {"device_class": "nic.example.com"}


def profile(slug, claims, **override):
    return {"display_name": slug, "slug": slug, "kubespawner_override": {"device_claims": claims, **override}}


async def manifest(spawner, **options):
    spawner.user_options = options
    spawner.clear_state()
    await spawner.load_user_options()
    pod = await spawner.get_pod_manifest()
    return ApiClient().sanitize_for_serialization(pod), parts_of(spawner).start.attempt.objects


def test_the_entry_point_names_the_spawner():
    (entry,) = entry_points(group="jupyterhub.spawners", name="dra")
    assert entry.load() is DRASpawner


@pytest.mark.promise("Five lines of a profile become a claim, and a pod that names it.")
async def test_short_form(nowhere):
    nowhere.spawner_config.device_claims = {"gpu": GPU}
    nowhere.spawner_config.cpu_guarantee = 1
    pod, objects = await manifest(nowhere.user("ada").spawner)
    (template,) = objects.templates.values()
    name = template["metadata"]["name"]
    assert re.fullmatch(r"jupyter-ada-gpu-[0-9a-f]{8}", name)
    assert pod["spec"]["resourceClaims"] == [{"name": "gpu", "resourceClaimTemplateName": name}]
    resources = pod["spec"]["containers"][0]["resources"]
    assert resources["claims"] == [{"name": "gpu"}]
    assert resources["requests"]["cpu"] == 1.0
    assert template["metadata"]["namespace"] == "jupyterhub"
    assert template["spec"]["spec"]["devices"]["requests"][0]["exactly"]["capacity"] == {"requests": {"memory": "10Gi"}}


async def test_the_template_names_user_server_and_profile(nowhere):
    nowhere.spawner_config.profile_list = [profile("gpu-slice", {"gpu": GPU})]
    user = nowhere.user("Ada.Lovelace@example.org")
    _, objects = await manifest(nowhere.spawner(user, "My work"), profile="gpu-slice")
    metadata = objects.templates["gpu"]["metadata"]
    assert metadata["labels"]["hub.jupyter.org/profile"] == "gpu-slice"
    assert metadata["labels"]["app.kubernetes.io/managed-by"] == "dra-spawner"
    assert metadata["labels"].get("component") != "singleuser-server"
    assert all(
        re.fullmatch(r"(?!.{64})([a-zA-Z0-9]([-._a-zA-Z0-9]*[a-zA-Z0-9])?)?", v) for v in metadata["labels"].values()
    )
    assert metadata["annotations"]["hub.jupyter.org/username"] == "Ada.Lovelace@example.org"
    assert metadata["annotations"]["hub.jupyter.org/servername"] == "My work"
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", metadata["name"])


def failed() -> float:
    reason = {"reason": RefusalReason.NO_DEVICE.value}
    return REGISTRY.get_sample_value("dra_spawner_failed_starts_total", reason) or 0.0


async def test_a_server_of_try_is_marked_and_its_failure_is_not_counted(nowhere):
    """The service counts it nowhere as demand, and nobody is paged for it."""
    nowhere.spawner_config.profile_list = [profile("gpu-slice", {"gpu": GPU})]
    spawner, counted = nowhere.user("ada").spawner, []
    for options in ({}, {names.TRIAL_OPTION: "true"}):
        pod, _ = await manifest(spawner, profile="gpu-slice", **options)
        assert pod["metadata"]["labels"].get(names.TRIAL) == ("true" if options else None)

        async def refused():
            raise SpawnRefused("There is no device.", RefusalReason.NO_DEVICE)

        before = failed()
        with pytest.raises(SpawnRefused):
            await parts_of(spawner).start.run(refused)
        counted.append(failed() - before)
    assert counted == [1, 0]


async def test_each_start_has_a_nonce_of_its_own(nowhere):
    nowhere.spawner_config.device_claims = {"gpu": GPU}
    spawner = nowhere.user("ada").spawner
    names = {(await manifest(spawner))[1].templates["gpu"]["metadata"]["name"] for _ in range(3)}
    assert len(names) == 3


async def test_names_fit_even_for_the_longest_users_and_claims(nowhere):
    nowhere.spawner_config.device_claims = {"g" * 63: GPU}
    spawner = nowhere.spawner(nowhere.user("u" * 200), "s" * 200)
    _, objects = await manifest(spawner)
    assert len(objects.templates["g" * 63]["metadata"]["name"]) <= 253


async def test_long_form_serves_side_containers(nowhere):
    nowhere.spawner_config.device_claims = {
        "both": {
            "requests": {"gpu": GPU, "nic": NIC},
            "containers": {"notebook": ["gpu"], "sidecar": ["gpu", "nic"], "helper": ["nic"]},
        }
    }
    nowhere.spawner_config.extra_containers = [
        {"name": "sidecar", "image": "x", "resources": {"limits": {"cpu": 1}}},
        {"name": "logger", "image": "y"},
        {"name": "helper", "image": "z"},
    ]
    pod, _ = await manifest(nowhere.user("ada").spawner)
    claims = {c["name"]: (c.get("resources") or {}).get("claims") for c in pod["spec"]["containers"]}
    assert claims == {
        "notebook": [{"name": "both", "request": "gpu"}],
        "sidecar": [{"name": "both"}],
        "logger": None,
        "helper": [{"name": "both", "request": "nic"}],
    }


async def test_claims_of_extra_pod_config_stay(nowhere):
    nowhere.spawner_config.device_claims = {"gpu": GPU}
    nowhere.spawner_config.extra_pod_config = {"resource_claims": [{"name": "own", "resourceClaimName": "team"}]}
    pod, _ = await manifest(nowhere.user("ada").spawner)
    assert [claim["name"] for claim in pod["spec"]["resourceClaims"]] == ["own", "gpu"]


async def test_claims_from_elsewhere_are_named_and_nothing_is_made(nowhere):
    nowhere.spawner_config.device_claims = {
        "channel": {"template": "imex-channel"},
        "team": {"claim": "team-gpu"},
        "gpu": GPU,
        "nic": NIC,
    }
    pod, objects = await manifest(nowhere.user("ada").spawner)
    assert list(objects.templates) == ["gpu", "nic"]
    assert pod["spec"]["resourceClaims"] == [
        {"name": "channel", "resourceClaimTemplateName": "imex-channel"},
        {"name": "team", "resourceClaimName": "team-gpu"},
        *(
            {"name": name, "resourceClaimTemplateName": objects.templates[name]["metadata"]["name"]}
            for name in ("gpu", "nic")
        ),
    ]
    claims = pod["spec"]["containers"][0]["resources"]["claims"]
    assert claims == [{"name": name} for name in ("channel", "team", "gpu", "nic")]


async def test_the_name_of_a_group_becomes_a_label(nowhere):
    group = "Physics 101 / " + "x" * 100
    nowhere.spawner_config.device_claims = {"gpu": {**GPU, "shared": {"by": "group", "group": [group]}}}
    _, objects = await manifest(nowhere.user("ada", group).spawner)
    metadata = objects.shared["gpu"].object.manifest["metadata"]
    assert is_valid_label(metadata["labels"]["hub.jupyter.org/shared-by-group"])
    assert metadata["annotations"][SHARED_BY] == f"group:{group}"


async def test_placeholders_of_parameters_are_expanded(nowhere):
    parameters = {"user": "{username}", "pod": "/run/{pod_name}/{namespace}", "brace": "{{", "{username}": "{userid}"}
    nowhere.spawner_config.profile_list = [
        profile(
            "gpu",
            {"a": {"requests": {"gpu": GPU}, "config": [{"driver": "other.example.org", "parameters": parameters}]}},
        )
    ]
    _, objects = await manifest(nowhere.user("ada").spawner, profile="gpu")
    (config,) = objects.templates["a"]["spec"]["spec"]["devices"]["config"]
    assert config["opaque"]["parameters"] == {
        "user": "ada",
        "pod": "/run/jupyter-ada/jupyterhub",
        "brace": "{",
        "{username}": 1,
    }


@pytest.mark.promise("Admin access is for administrators of the hub.")
async def test_admin_access_is_for_administrators_of_the_hub(nowhere):
    nowhere.spawner_config.profile_list = [
        profile("all", {"gpu": {"device_class": "gpu.example.com", "count": "all", "admin_access": True}})
    ]
    ada, eve = nowhere.user("ada"), nowhere.user("eve")
    ada.admin = True
    _, objects = await manifest(ada.spawner, profile="all")
    exactly = objects.templates["gpu"]["spec"]["spec"]["devices"]["requests"][0]["exactly"]
    assert exactly["adminAccess"] is True
    with pytest.raises(SpawnRefused, match="only administrators of this hub") as caught:
        await manifest(eve.spawner, profile="all")
    assert caught.value.status_code == 403
    assert configuration_problems(parts_of(ada.spawner).server) == []


@pytest.mark.promise("Without claims, a pod is KubeSpawner's own.")
async def test_without_claims_the_pod_is_kubespawners(nowhere):
    pod, objects = await manifest(nowhere.user("ada").spawner)
    assert "resourceClaims" not in pod["spec"]
    assert objects.templates == {}


async def test_a_container_that_is_not_there_is_refused(nowhere):
    nowhere.spawner_config.device_claims = {"a": {"requests": {"gpu": GPU}, "containers": {"sidecar": ["gpu"]}}}
    with pytest.raises(SpawnRefused, match=r"container sidecar; the pod has: notebook"):
        await manifest(nowhere.user("ada").spawner)


async def test_a_second_start_forgets_the_first_profile(nowhere):
    nowhere.spawner_config.profile_list = [
        profile("gpu", {"gpu": GPU}),
        profile("nic", {"nic": NIC}),
        profile("none", {}),
    ]
    spawner = nowhere.user("ada").spawner
    assert list((await manifest(spawner, profile="gpu"))[1].templates) == ["gpu"]
    assert list((await manifest(spawner, profile="nic"))[1].templates) == ["nic"]
    assert list((await manifest(spawner, profile="none"))[1].templates) == []


TYPED = {
    "enabled": True,
    "validation_regex": r"\d{1,2}Gi",
    "kubespawner_override": {"device_claims": {"gpu": {"capacity": {"memory": "{value}"}}}},
}


async def test_choices_merge_into_the_profile(nowhere):
    sizes = {
        size: {"display_name": size, "kubespawner_override": {"device_claims": {"gpu": {"capacity": {"memory": size}}}}}
        for size in ("5Gi", "20Gi")
    }
    option = {"memory": {"display_name": "Memory", "choices": sizes, "unlisted_choice": TYPED}}
    nowhere.spawner_config.profile_list = [{**profile("gpu", {"gpu": GPU}), "profile_options": option}]
    spawner = nowhere.user("ada").spawner

    async def memory(**options):
        _, objects = await manifest(spawner, profile="gpu", **options)
        request = objects.templates["gpu"]["spec"]["spec"]["devices"]["requests"][0]
        return request["exactly"]["capacity"]["requests"]["memory"]

    assert await memory() == "5Gi"
    assert await memory(memory="20Gi") == "20Gi"
    assert await memory(**{"memory--unlisted-choice": "15Gi"}) == "15Gi"
    for hostile in ("15Gi; drop", "15Gi\n", "{value}", "-5Gi"):
        with pytest.raises(SpawnRefused, match="not a valid value"):
            await memory(**{"memory--unlisted-choice": hostile})
    with pytest.raises(SpawnRefused, match="The value you typed cannot be used: found '0Gi', allowed: a quantity"):
        await memory(**{"memory--unlisted-choice": "0Gi"})


@pytest.mark.promise("A wrong claim is refused before any request, with its path.")
async def test_a_wrong_claim_is_refused_before_any_request_with_its_path(nowhere):
    nowhere.spawner_config.profile_list = lambda spawner: [profile("gpu", {"gpu": {**GPU, "count": 0}})]
    spawner = nowhere.user("ada").spawner
    spawner.user_options = {"profile": "gpu"}
    with pytest.raises(SpawnRefused) as caught:
        await spawner.start()
    assert caught.value.jupyterhub_message == (
        "This profile is misconfigured. Please tell your administrator: "
        "profile gpu, device_claims.gpu.count: found 0; allowed: a whole number from 1 to 32, or all"
    )
    assert caught.value.status_code == 400


@pytest.mark.promise("No option brings a claim that no profile offers.")
@all_of_them(
    "options",
    [
        {"device_claims": {"gpu": {"device_class": "gpu.example.com"}}},
        {"profile": "none", "device_claims": {"gpu": {"device_class": "gpu.example.com"}}},
        {"profile": "none", "kubespawner_override": {"device_claims": {"gpu": {"device_class": "gpu.example.com"}}}},
        {"profile": "none", "gpu": {"device_class": "gpu.example.com"}},
        {"profile": "none", "memory": "80Gi", "memory--unlisted-choice": "80Gi"},
    ],
)
async def test_no_option_brings_a_claim_that_no_profile_offers(nowhere, options):
    nowhere.spawner_config.profile_list = [profile("none", {}), profile("gpu", {"gpu": GPU})]
    with pytest.raises(SpawnRefused, match="has no option"):
        await manifest(nowhere.user("eve").spawner, **options)


async def test_the_form_survives_options_that_are_no_longer_valid(nowhere):
    nowhere.spawner_config.profile_list = [profile("gpu", {"gpu": GPU})]
    spawner = nowhere.user("ada").spawner
    spawner.user_options = {"profile": "gone"}
    assert "gpu" in await spawner.get_options_form()


@all_of_them(
    "claims, regex, path",
    [
        ({"gpu": {"device_class": "{value}"}}, r"[a-z.]+", "gpu.device_class"),
        ({"gpu": {"where": 'device.driver == "{value}"'}}, r".*", "gpu.where"),
        ({"gpu": {"capacity": {"memory": "{value}"}}}, None, "validation_regex"),
    ],
)
async def test_free_text_reaches_no_claim_unbounded_even_from_a_function(nowhere, claims, regex, path):
    unlisted = {"enabled": True, "kubespawner_override": {"device_claims": claims}}
    if regex:
        unlisted["validation_regex"] = regex
    entry = {
        **profile("gpu", {"gpu": GPU}),
        "profile_options": {"o": {"display_name": "o", "unlisted_choice": unlisted}},
    }
    nowhere.spawner_config.profile_list = lambda spawner: [entry]
    with pytest.raises(SpawnRefused, match=path):
        await manifest(nowhere.user("eve").spawner, profile="gpu", **{"o--unlisted-choice": "secret.example.com"})


@all_of_them(
    "profiles",
    [
        [{"slug": "gpu"}],
        [{"slug": "gpu", "display_name": "x", "kubespawner_override": {"device_claims": None}}],
        [{"slug": "gpu", "display_name": "x", "kubespawner_override": {"device_claims": ["x"]}}],
    ],
)
async def test_an_invalid_profile_is_refused_with_a_sentence(nowhere, profiles):
    nowhere.spawner_config.profile_list = lambda spawner: profiles
    with pytest.raises(SpawnRefused, match=r"Please tell your administrator"):
        await manifest(nowhere.user("ada").spawner, profile="gpu")
