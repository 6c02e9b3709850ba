"""Names of DRASpawner: a hub's own class may use any other."""

from __future__ import annotations

from typing import Any

from kubernetes_asyncio.client import ApiClient
from kubespawner import KubeSpawner

from dra_spawner.spawner import DRASpawner
from dra_spawner.spawner.settings import SpawnerSettings
from tests.spawner.hub_side import HubSide

GPU = {"gpu": {"device_class": "gpu.example.com", "capacity": {"memory": "5Gi"}}}
#: What parts of DRASpawner are called, or a hub's class may well call its own.
NAMES = (
    *(
        "attempt",
        "availability",
        "chosen_profile",
        "configured",
        "devices",
        "form",
        "home",
        "idle_timeout",
        "kubernetes",
    ),
    *(
        "messages",
        "own_devices",
        "page",
        "record",
        "retry",
        "server_context",
        "start_page",
        "steps",
        "tasks",
        "trouble",
    ),
    *("_completed", "_form_changed", "_line", "_own_pod", "_record_end", "_retry", "_start_ends", "_stops", "_tasks"),
)


class OfTheHub(DRASpawner):
    """A class of a hub that uses names for itself: of methods, and of attributes."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.log_of_hub = self.record = ["before"]
        super().__init__(*args, **kwargs)
        self.messages = self.attempt = self.record


for _name in NAMES:
    if _name not in ("attempt", "messages", "record"):
        setattr(OfTheHub, _name, property(lambda self: 1 / 0))


def test_the_class_adds_its_settings_and_one_name() -> None:
    added = {name for kind in (SpawnerSettings, DRASpawner) for name in vars(kind) if not hasattr(KubeSpawner, name)}
    assert {
        each
        for each in added - DRASpawner.class_own_traits().keys() - SpawnerSettings.class_own_traits().keys()
        if not each.startswith("_dra")
    } <= {"_apply_user_options_dict"}, "a method of KubeSpawner since 7.1"
    assert not set(NAMES) & set(DRASpawner.class_trait_names())


async def test_a_class_of_a_hub_may_use_any_name(nowhere: HubSide) -> None:
    pods, forms = [], []
    for kind in (DRASpawner, OfTheHub):
        nowhere.spawner_class = kind
        nowhere.spawner_config.namespace = "jupyterhub"
        nowhere.spawner_config.profile_list = [
            {"display_name": "GPU", "slug": "gpu", "kubespawner_override": {"device_claims": GPU}}
        ]
        spawner = nowhere.user("ada").spawner
        forms.append(await spawner.get_options_form())
        spawner.user_options = {"profile": "gpu"}
        spawner.load_state({"dra_spawner": {"place": "", "failure": "All devices are in use.", "failed_at": None}})
        await spawner.load_user_options()
        pod = ApiClient().sanitize_for_serialization(await spawner.get_pod_manifest())
        for each in pod["spec"]["resourceClaims"]:
            each.pop("resourceClaimTemplateName")  # random
        pods.append(pod)
        assert spawner.get_state()["dra_spawner"]["failure"] == "All devices are in use."
        assert spawner.events == []
        spawner.clear_state()
    assert (pods[1], forms[1]) == (pods[0], forms[0])
    assert spawner.messages is spawner.attempt is spawner.record == ["before"]
