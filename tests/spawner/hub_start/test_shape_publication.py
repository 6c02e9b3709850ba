"""Which choices have a shape, and that it is the one of the pod that a user gets; without a cluster."""

from __future__ import annotations

from dra_spawner.placeholders.planner.targets.published_shapes import (
    published_config_map,
    read_config_map,
)
from dra_spawner.profiles.findings import Finding, Level
from dra_spawner.spawner.hub_start.configuration_problems import configuration_problems
from dra_spawner.spawner.hub_start.sample_users import SampleSpawners
from dra_spawner.spawner.hub_start.shape_publication import published_shapes
from dra_spawner.spawner.placement.pod import manifest_of, shape_of_pod
from dra_spawner.spawner.server_context import parts_of
from dra_spawner.spawner.steps.cluster_check import checks_of_hub
from tests.all_of_them import all_of_them
from tests.spawner.sized_profiles import sizes

GPU = {"device_class": "gpu.example.com", "capacity": {"memory": "10Gi"}}
SIZES = sizes("5Gi", "10Gi", "20Gi", default="10Gi")


def profile(slug, claims=None, *, options=None, **override):
    return {
        "display_name": slug,
        "slug": slug,
        "kubespawner_override": {"device_claims": claims or {}, **override},
        **({"profile_options": options} if options else {}),
    }


async def published(side, *profiles):
    if profiles:
        side.spawner_config.profile_list = list(profiles)
    return await published_shapes(SampleSpawners(side.settings).new)


async def shape_of_user(side, **options):
    """The shape that a real user's start would request."""
    spawner = side.user("Ada.Lovelace@example.org").spawner
    spawner.user_options = options
    await spawner.load_user_options()
    pod = await spawner.get_pod_manifest()
    templates = parts_of(spawner).start.attempt.objects.templates.values()
    specs = {each["metadata"]["name"]: each["spec"]["spec"] for each in templates}
    return shape_of_pod(manifest_of(pod, spawner.api.api_client), specs)


async def test_each_choice_has_the_shape_of_its_users_pods(nowhere):
    nowhere.spawner_config.cpu_guarantee = 0.5
    nowhere.spawner_config.mem_limit = "1G"
    nowhere.spawner_config.node_selector = {"pool": "users"}
    found = await published(
        nowhere,
        profile("gpu", {"gpu": GPU}, options=SIZES, tolerations=[{"key": "gpu", "operator": "Exists"}]),
        profile("cpu", cpu_guarantee=2, image="example/other:2"),
    )
    assert found.skipped == {}
    assert list(found.shapes) == ["gpu", "gpu/memory=5Gi", "gpu/memory=20Gi", "cpu"]
    assert len({shape.id for shape in found.shapes.values()}) == 4
    for name, shape in found.shapes.items():
        slug, _, choice = name.partition("/")
        options = dict([choice.split("=")]) if choice else {}
        assert await shape_of_user(nowhere, profile=slug, **options) == shape
    assert found.shapes["gpu"].claims["gpu"]["devices"]["requests"][0]["exactly"]["capacity"] == {
        "requests": {"memory": "10Gi"}
    }
    assert found.shapes["gpu"].containers[0]["requests"] == {"cpu": "500m", "memory": "1073741824"}
    assert found.shapes["cpu"].images == {"example/other:2"}
    assert found.defaults == {"gpu": {"memory": "10Gi"}}
    assert found.titles == {
        "gpu": "gpu, 10 GiB",
        "gpu/memory=5Gi": "gpu, 5 GiB",
        "gpu/memory=20Gi": "gpu, 20 GiB",
        "cpu": "cpu",
    }
    assert found.find("gpu/memory=10Gi") == "gpu"
    assert read_config_map(published_config_map(found, "jupyterhub", {})) == found


IMAGES = {
    "image": {
        "display_name": "Image",
        "choices": {
            "scipy": {"display_name": "SciPy", "default": True},
            "torch": {"display_name": "Torch", "kubespawner_override": {"image": "example/torch:1", "mem_limit": "4G"}},
        },
    }
}


async def test_choices_of_several_options_have_the_shape_of_their_users_pods(nowhere):
    found = await published(nowhere, profile("gpu", {"gpu": GPU}, options={**SIZES, **IMAGES}))
    assert found.skipped == {}
    assert list(found.shapes) == [
        "gpu",
        "gpu/memory=5Gi",
        "gpu/memory=20Gi",
        "gpu/image=torch",
        "gpu/memory=5Gi,image=torch",
        "gpu/memory=20Gi,image=torch",
    ]
    large = found.shapes["gpu/memory=20Gi,image=torch"]
    assert large == await shape_of_user(nowhere, profile="gpu", memory="20Gi", image="torch")
    assert large.images == {"example/torch:1"}
    assert large.id not in {shape.id for name, shape in found.shapes.items() if shape is not large}
    assert read_config_map(published_config_map(found, "jupyterhub", {})) == found


async def test_common_options_are_those_of_each_profile(nowhere):
    """In publication, check and start alike; a profile's own option wins."""
    nowhere.spawner_config.common_profile_options = {**IMAGES, **SIZES}
    own = {"image": {"display_name": "Image", "choices": {"lab": {"display_name": "Lab"}}}}
    found = await published(nowhere, profile("gpu", {"gpu": GPU}), profile("own", {"gpu": GPU}, options=own))
    assert found.skipped == {}
    assert {"gpu/image=torch,memory=20Gi", "own/memory=20Gi"} < set(found.shapes)
    assert not any("torch" in name for name in found.shapes if name.startswith("own"))
    assert found.shapes["gpu/image=torch"] == await shape_of_user(nowhere, profile="gpu", image="torch")
    spawner = nowhere.user("ada").spawner
    assert configuration_problems(parts_of(spawner).server) == []
    assert "profile-option-own--memory" in await spawner.get_options_form()
    spawner.common_profile_options = {"memory": {"choices": {"x": {"kubespawner_override": {"device_claims": 5}}}}}
    assert {found.path for found in configuration_problems(parts_of(spawner).server)} == {
        f"profile_list[{number}].profile_options.memory.choices.x.kubespawner_override.device_claims"
        for number in (0, 1)
    }


async def test_very_many_combinations_are_left_out(nowhere):
    """But the choices of each option are there, and other profiles' combinations."""
    many = {
        option: {"display_name": option, "choices": {str(number): {"display_name": "x"} for number in range(16)}}
        for option in ("a", "b")
    }
    found = await published(
        nowhere, profile("many", options=many), profile("gpu", {"gpu": GPU}, options={**SIZES, **IMAGES})
    )
    assert [name for name in found.shapes if name.startswith("many")] == [
        "many",
        *(f"many/{option}={number}" for option in "ab" for number in range(1, 16)),
    ]
    assert "gpu/memory=20Gi,image=torch" in found.shapes
    why = "225 combinations of several options are too many to publish"
    assert found.skipped == {"many/*": f"{why}; their servers start, but they have no placeholders"}


async def test_without_profiles_there_is_one_choice(nowhere):
    nowhere.spawner_config.device_claims = {"gpu": GPU}
    found = await published(nowhere)
    assert list(found.shapes) == ["default"]
    assert found.shapes["default"] == await shape_of_user(nowhere)


PARAMETERS = {"requests": {"gpu": GPU}, "config": [{"driver": "gpu.example.com", "parameters": {"who": "{username}"}}]}


FOREIGN = "it uses existing claims or templates"


@all_of_them(
    "entry, why",
    {
        "parameters": (profile("p", {"gpu": PARAMETERS}), "it has variables that differ between users: {username}"),
        "shared": (profile("p", {"gpu": {**GPU, "shared": {"by": "user"}}}), "its servers share a claim"),
        "foreign claim": (profile("p", {"gpu": {"claim": "team"}}), FOREIGN),
        "foreign template": (profile("p", {"gpu": {"template": "imex"}}), FOREIGN),
        "optional": (profile("p", {"gpu": {**GPU, "optional": True}}), "it has optional devices"),
        "intel_gas": (profile("p", intel_gas={"count": 1}), "intel_gas assigns cards of certain nodes"),
        "differs between users": (
            profile("p", node_selector=lambda spawner: {"owner": spawner.user.name}),
            "its shape differs between users",
        ),
        "admin access": (profile("p", {"gpu": {**GPU, "admin_access": True}}), "only administrators of this hub"),
        "a function that fails": (profile("p", cpu_guarantee=lambda spawner: 1 / 0), "division by zero"),
        "wrong claim": (profile("p", {"gpu": {**GPU, "count": 0}}), "count: found 0"),
    },
)
async def test_a_choice_without_a_shape_is_left_out_with_the_reason(nowhere, entry, why):
    found = await published(nowhere, entry, profile("fine", {"gpu": GPU}))
    assert list(found.shapes) == ["fine"]
    assert why in found.skipped["p"]


class NeverFits:
    """Facts about a cluster whose largest node has four devices."""

    async def error_in(self, choice):
        if "huge" not in choice.path:
            return None
        return Finding(Level.ERROR, "never-fits", f"{choice.path}.device_claims.gpu", "only 4 of 9 devices"), ""


async def test_choices_that_cannot_work_are_published_with_their_key(nowhere, monkeypatch):
    monkeypatch.setattr(checks_of_hub(), "facts", NeverFits())
    choices = {
        "huge": {"gpu": GPU},
        "wrong": {"gpu": {**GPU, "count": 0}},
        "shared": {"gpu": {**GPU, "optional": True}},
    }
    found = await published(nowhere, *(profile(slug, claims) for slug, claims in choices.items()), profile("fine"))
    assert list(found.shapes) == ["fine"]
    assert {name: each.path for name, each in found.refused.items()} == {
        "huge": "profile huge.device_claims.gpu",
        "wrong": "profile wrong, device_claims.gpu.count",
    }
    assert found.refused["huge"].message == "only 4 of 9 devices"
    assert read_config_map(published_config_map(found, "hub", {})).refused == found.refused


async def test_a_list_that_is_a_function_has_no_choices_beforehand(nowhere):
    nowhere.spawner_config.profile_list = lambda spawner: [profile("gpu", {"gpu": GPU})]
    found = await published(nowhere)
    assert (found.shapes, list(found.skipped)) == ({}, ["profile_list"])


async def test_names_users_labels_and_images_do_not_count(nowhere):
    nowhere.spawner_config.environment = {"WHO": "{username}"}
    nowhere.spawner_config.extra_labels = {"user": "{username}"}
    nowhere.spawner_config.volumes = [{"name": "home", "persistentVolumeClaim": {"claimName": "{pvc_name}"}}]
    nowhere.spawner_config.node_affinity_preferred = [
        {"weight": 1, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}}
    ]
    shape, other = (
        await published(nowhere, profile("a", {"gpu": GPU}), profile("b", {"gpu": GPU}, image="b:1"))
    ).shapes.values()
    assert shape.id == other.id
    assert shape == await shape_of_user(nowhere, profile="a")
