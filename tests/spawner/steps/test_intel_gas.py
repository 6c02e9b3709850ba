"""From ``intel_gas`` to the pod, without a cluster: behaviour that does not depend on free cards."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from kubernetes_asyncio.client import ApiClient, V1Container, V1NodeSelectorTerm, V1ResourceRequirements

from dra_spawner.profiles.intel_gas import ChosenCards, parse_intel_gas
from dra_spawner.profiles.intel_gas.gas_language import INTEL_GAS_KEYS
from dra_spawner.profiles.intel_gas.ledger import ContainerCards
from dra_spawner.spawner.accounts.intel_gas_ledger import AssignedCards
from dra_spawner.spawner.hub_parts.hub_wide import forget_hub
from dra_spawner.spawner.hub_start.configuration_problems import configuration_problems
from dra_spawner.spawner.server_context import parts_of
from dra_spawner.spawner.spawn_refusal import SpawnRefused
from tests.presence import present

DOCUMENT = (Path(__file__).parents[3] / "docs" / "how-to" / "intel-gas.md").read_text()


@pytest.fixture(autouse=True)
async def _fresh_ledgers():
    yield
    forget_hub()


async def manifest(spawner, **options):
    spawner.user_options = options
    spawner.clear_state()
    await spawner.load_user_options()
    return ApiClient().sanitize_for_serialization(await spawner.get_pod_manifest())


def profile(slug, **override):
    return {"display_name": slug, "slug": slug, "kubespawner_override": override}


def gpu_limits(container):
    resources = container.get("resources") or {}
    assert resources.get("limits", {}).items() >= {}.items()
    return {
        name.removeprefix("gpu.intel.com/"): value
        for name, value in (resources.get("limits") or {}).items()
        if name.startswith("gpu.intel.com/") and resources["requests"][name] == value
    }


async def test_without_gpus_the_pod_is_kubespawners(nowhere):
    pod = await manifest(nowhere.user("ada").spawner)
    assert gpu_limits(pod["spec"]["containers"][0]) == {}


async def test_choices_merge_and_the_next_start_forgets_them(nowhere):
    sizes = {
        size: {"display_name": size, "kubespawner_override": {"intel_gas": {"millicores": millicores}}}
        for size, millicores in (("small", 100), ("large", 900))
    }
    free = {
        "enabled": True,
        "validation_regex": r"\d+Gi",
        "kubespawner_override": {"intel_gas": {"memory": "{value}"}},
    }
    options = {
        "size": {"display_name": "Size", "choices": sizes},
        "memory": {"display_name": "Memory", "choices": {"any": {"display_name": "any"}}, "unlisted_choice": free},
    }
    gpu = {**profile("gpu", intel_gas={"resource": "xe", "scheduler": "gas"}), "profile_options": options}
    nowhere.spawner_config.profile_list = [gpu, profile("none")]
    spawner = nowhere.user("ada").spawner
    pod = await manifest(spawner, profile="gpu", size="large", **{"memory--unlisted-choice": "1Gi"})
    assert gpu_limits(pod["spec"]["containers"][0]) == {"xe": "1", "millicores": "900", "memory.max": str(2**30)}
    pod = await manifest(spawner, profile="gpu")
    assert gpu_limits(pod["spec"]["containers"][0]) == {"xe": "1", "millicores": "100"}
    assert gpu_limits((await manifest(spawner, profile="none"))["spec"]["containers"][0]) == {}
    with pytest.raises(SpawnRefused, match="The value you typed cannot be used: found '0Gi', allowed: a quantity"):
        await manifest(spawner, profile="gpu", **{"memory--unlisted-choice": "0Gi"})


async def test_a_wrong_profile_is_refused_with_its_path(nowhere):
    wrong = [profile("gpu", intel_gas={"millicores": 2000})]
    nowhere.spawner_config.profile_list = wrong
    (problem,) = configuration_problems(parts_of(nowhere.user("eve").spawner).server)
    assert problem.path == "profile_list[0].kubespawner_override.intel_gas.millicores"
    nowhere.spawner_config.profile_list = lambda spawner: wrong
    with pytest.raises(
        SpawnRefused, match=r"profile gpu, intel_gas\.millicores: found 2000; allowed: .* from 1 to 1000"
    ):
        await manifest(nowhere.user("ada").spawner, profile="gpu")


async def test_a_container_that_is_not_there_is_refused(nowhere):
    nowhere.spawner_config.intel_gas = {"containers": {"sidecar": {}}}
    with pytest.raises(SpawnRefused, match=r"container sidecar; the pod has: notebook"):
        await manifest(nowhere.user("ada").spawner)


async def test_a_cluster_that_does_not_answer_leaves_plain_limits(nowhere, caplog):
    nowhere.spawner_config.intel_gas = {"millicores": 500, "allow": ["card0"], "hierarchy": "COMBINED"}
    pod = await manifest(nowhere.user("ada").spawner)
    (notebook,) = pod["spec"]["containers"]
    assert gpu_limits(notebook) == {"i915": "1", "millicores": "500"}
    assert {"name": "ZE_FLAT_DEVICE_HIERARCHY", "value": "COMBINED"} in notebook["env"]
    assert not [name for name in pod["metadata"]["annotations"] if name.startswith("gas-")]
    assert "No cards of Intel GPUs were chosen" in caplog.text


SIDE = {"name": "side", "image": "x", "resources": {"limits": {"cpu": "1"}}, "env": [{"name": "A", "value": "1"}]}


async def test_extra_containers_as_dicts_and_as_models(nowhere):
    model = V1Container(name="model", image="y", resources=V1ResourceRequirements(limits={"memory": "1Gi"}))
    nowhere.spawner_config.extra_containers = [SIDE, model, {"name": "idle", "image": "z"}]
    nowhere.spawner_config.intel_gas = {
        "scheduler": "gas",
        "containers": {"side": {}, "model": {"count": 2}, "notebook": {}},
        "hierarchy": "FLAT",
    }
    spawner = nowhere.user("ada").spawner
    for _ in range(2):
        pod = await manifest(spawner)
        by_name = {each["name"]: each for each in pod["spec"]["containers"]}
        assert {name: gpu_limits(each) for name, each in by_name.items()} == {
            "notebook": {"i915": "1"},
            "side": {"i915": "1"},
            "model": {"i915": "2"},
            "idle": {},
        }
        assert by_name["side"]["resources"]["limits"]["cpu"] == "1"
        assert by_name["model"]["resources"]["limits"]["memory"] == "1Gi"
        assert [entry["name"] for entry in by_name["side"]["env"]] == ["A", "ZE_FLAT_DEVICE_HIERARCHY"]
    assert model.resources.limits == {"memory": "1Gi"}
    assert model.env is None


class OneNode:
    """Gives a card of one node to everybody."""

    async def assign(self, api, request, pod, lifetime):
        cards = (ContainerCards(("card1",), (("card1", (1,)),)),)
        return AssignedCards(ChosenCards("node-a", cards), 2, 7)

    def begin_cleaning(self, api, interval):
        pass


@pytest.mark.parametrize("as_dict", [False, True], ids=["models", "a dict"])
@pytest.mark.parametrize("zones", [(), ("a",), ("a", "b")], ids=lambda zones: f"{len(zones)} terms")
async def test_the_node_is_required_besides_what_the_pod_requires(nowhere, monkeypatch, as_dict, zones):
    monkeypatch.setattr("dra_spawner.spawner.steps.intel_gas.ledger_of", lambda *_: OneNode())
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]} for zone in zones]
    if not as_dict:
        nowhere.spawner_config.node_affinity_required = terms
    elif terms:
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        nowhere.spawner_config.extra_pod_config = {"affinity": {"nodeAffinity": required, "podAffinity": {}}}
    nowhere.spawner_config.intel_gas = {"tiles": 1}
    spawner = nowhere.user("ada").spawner
    for _ in range(2):
        pod = await manifest(spawner)
        required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        pin = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]}
        assert required["nodeSelectorTerms"] == [{**term, **pin} for term in terms or [{}]]
    assert {"name": "ZE_AFFINITY_MASK", "value": "1"} in pod["spec"]["containers"][0]["env"]


async def test_terms_that_are_models_are_not_changed(nowhere, monkeypatch):
    monkeypatch.setattr("dra_spawner.spawner.steps.intel_gas.ledger_of", lambda *_: OneNode())
    term = V1NodeSelectorTerm(match_expressions=[{"key": "zone", "operator": "Exists"}])
    nowhere.spawner_config.node_affinity_required = [term]
    nowhere.spawner_config.intel_gas = {"tiles": 1}
    await manifest(nowhere.user("ada").spawner)
    assert term.match_fields is None


async def test_the_profiles_own_mask_stays(nowhere, monkeypatch):
    monkeypatch.setattr("dra_spawner.spawner.steps.intel_gas.ledger_of", lambda *_: OneNode())
    nowhere.spawner_config.environment = {"ZE_AFFINITY_MASK": "0"}
    nowhere.spawner_config.intel_gas = {"tiles": 1}
    (notebook,) = (await manifest(nowhere.user("ada").spawner))["spec"]["containers"]
    assert [entry["value"] for entry in notebook["env"] if entry["name"] == "ZE_AFFINITY_MASK"] == ["0"]


async def test_an_error_of_ours_is_no_failed_start(nowhere, monkeypatch, caplog):
    def broken(*_):
        raise RuntimeError("ours")

    monkeypatch.setattr("dra_spawner.spawner.steps.intel_gas.ledger_of", broken)
    nowhere.spawner_config.intel_gas = {"count": 1}
    pod = await manifest(nowhere.user("ada").spawner)
    assert gpu_limits(pod["spec"]["containers"][0]) == {"i915": "1"}
    assert "Could not choose cards" in caplog.text


async def test_giving_back_a_card_that_was_not_given_does_nothing(nowhere):
    nowhere.spawner_config.intel_gas = {"count": 1}
    spawner = nowhere.user("ada").spawner
    await spawner.load_user_options()
    for _ in range(2):
        await parts_of(spawner).start.attempt.undo()


def test_examples_of_the_documentation_are_right():
    (example,) = re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.DOTALL)
    wish = present(parse_intel_gas(yaml.safe_load(example)["kubespawner_override"]["intel_gas"]))
    assert wish.containers[0].need.millicores == 500
    table = "".join(re.findall(r"^\| (`[^|]*) \|", DOCUMENT, re.MULTILINE)) + example
    assert [key for key in INTEL_GAS_KEYS if f"{key}" not in table] == []
