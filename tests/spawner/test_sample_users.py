"""Spawners of sample users have what JupyterHub gives those of real users."""

from __future__ import annotations

from typing import Any

import pytest
from jupyterhub import orm
from jupyterhub.auth import DummyAuthenticator

from dra_spawner.spawner import DRASpawner
from dra_spawner.spawner.sample_users import SAMPLE_USERS, SampleSpawners
from dra_spawner.spawner.shape_publication import published_shapes
from tests.all_of_them import all_of_them
from tests.spawner.hub_side import HubSide

GPU = {"gpu": {"device_class": "gpu.example.com"}}
PROFILES = [
    {"display_name": slug, "slug": slug, "kubespawner_override": {"device_claims": GPU}} for slug in ("one", "other")
]


class Curious(DRASpawner):
    """Looks at whatever a hub's class may look at, wherever it may."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.look()

    def look(self) -> None:
        assert self.authenticator.get_custom_html("/") is not None
        assert self.db.query(orm.User).filter_by(name=self.user.name).one() is self.user.orm_user
        assert self.orm_spawner.user is self.user.orm_user
        assert [role.name for role in self.user.roles] == ["user"]
        assert (list(self.user.groups), self.user.admin, self.user.escaped_name) == ([], False, self.user.name)
        assert self.user.url.startswith(self.user.base_url)
        assert self.hub.base_url

    async def load_user_options(self) -> None:
        self.look()
        assert await self.user.get_auth_state() is None
        await super().load_user_options()


def spawners_of(side: HubSide, spawner_class: type) -> SampleSpawners:
    side.config.DRASpawner.profile_list = PROFILES
    return SampleSpawners({**side.settings, "spawner_class": spawner_class, "authenticator": DummyAuthenticator()})


async def test_the_hubs_class_may_look_at_all_that_a_real_user_has(nowhere: HubSide) -> None:
    found = await published_shapes(spawners_of(nowhere, Curious).new)
    assert (sorted(found.shapes), found.skipped) == (["one", "other"], {})
    assert {each.name for each in nowhere.db.query(orm.User)}.isdisjoint(SAMPLE_USERS)


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
