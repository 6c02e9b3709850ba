"""Spawners of sample users have what JupyterHub gives those of real users."""

from __future__ import annotations

from typing import Any

from jupyterhub import orm
from jupyterhub.auth import DummyAuthenticator

from dra_spawner.spawner import DRASpawner
from dra_spawner.spawner.hub_start.sample_users import SAMPLE_USERS, SampleSpawners
from dra_spawner.spawner.hub_start.shape_publication import published_shapes
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
