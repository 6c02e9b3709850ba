"""Code of a hub that fails, wherever it may: the hub goes on, the log names it, and what does not need it is done."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dra_spawner.spawner import DRASpawner
from dra_spawner.spawner.hub_start.sample_users import SampleSpawners
from dra_spawner.spawner.hub_start.shape_publication import published_shapes
from tests.all_of_them import all_of_them
from tests.cluster.control_plane import write_kubeconfig
from tests.spawner.hub_side import HubSide, end_hub_side, kubernetes_of

GPU = {"gpu": {"device_class": "gpu.example.com"}}
PROFILES = [
    {"display_name": slug, "slug": slug, "kubespawner_override": {"device_claims": GPU}} for slug in ("one", "other")
]


@pytest.fixture
async def nowhere(tmp_path: Path) -> AsyncIterator[HubSide]:
    """A hub's side whose API server does not exist."""
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", {"server": "http://127.0.0.1:1"}, "none", "default")
    with kubernetes_of(kubeconfig):
        yield HubSide(kubeconfig, "jupyterhub")
        await end_hub_side()


def spawners_of(side: HubSide, spawner_class: type) -> SampleSpawners:
    side.config.DRASpawner.profile_list = PROFILES
    return SampleSpawners({**side.settings, "spawner_class": spawner_class})


def raising(spawner: Any) -> Any:
    raise LookupError("no such person")


class InInit(DRASpawner):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        raising(self)


class InOptions(DRASpawner):
    async def load_user_options(self) -> None:
        if (self.user_options or {}).get("profile") == "other":
            raising(self)
        await super().load_user_options()


class InPod(DRASpawner):
    async def get_pod_manifest(self) -> Any:
        if self.user_options["profile"] == "other":
            raising(self)
        return await super().get_pod_manifest()


class Ends(DRASpawner):
    async def load_user_options(self) -> None:
        if (self.user_options or {}).get("profile") == "other":
            raise SystemExit("LookupError: no such person")
        await super().load_user_options()


@all_of_them(
    "spawner_class, settings",
    {
        "code that ends its process": (Ends, {}),
        "a method": (InOptions, {}),
        "the method that makes the pod": (InPod, {}),
        "a function in a profile": (
            DRASpawner,
            {"profile_list": [PROFILES[0], {**PROFILES[1], "kubespawner_override": {"uid": raising, "cpu_limit": raising}}]},
        ),
    },
)  # fmt: skip
async def test_code_that_fails_for_one_choice_is_named_and_the_others_are_published(
    nowhere: HubSide, spawner_class: type, settings: dict[str, Any]
) -> None:
    new = spawners_of(nowhere, spawner_class).new
    nowhere.config.DRASpawner.update(settings)
    failures: dict[str, str] = {}
    found = await published_shapes(new, failures.__setitem__)
    assert list(found.shapes) == ["one"]
    assert found.skipped == failures
    assert f"({__file__}, line " in failures["other"]
    assert failures["other"].endswith("LookupError: no such person")


async def test_code_that_fails_for_every_user_publishes_nothing(nowhere: HubSide) -> None:
    with pytest.raises(LookupError):
        await published_shapes(spawners_of(nowhere, InInit).new)
