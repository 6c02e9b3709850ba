"""Spawners of users who do not exist, with all that JupyterHub gives a real user's spawner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from jupyterhub import orm, roles
from jupyterhub.user import User
from sqlalchemy import create_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import StaticPool

from dra_spawner.spawner.spawner import DRASpawner

#: A choice whose shape differs between these two users has no single shape.
SAMPLE_USERS: Final = ("sample-user", "another-sample-user")


class SampleSpawners:
    """Creates spawners of sample users, who are in a database of their own.

    The hub's own code may look at the user, the user's groups and the database as in a real start.

    Parameters
    ----------
    settings
        Of the hub's web application, from which JupyterHub makes its users.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        engine = create_engine("sqlite://", poolclass=StaticPool)  # in memory
        orm.Base.metadata.create_all(engine)
        self._db = Session(engine)
        spawner_class = settings["spawner_class"]
        is_ours = issubclass(spawner_class, DRASpawner)
        self._settings = {**settings, "db": self._db, "spawner_class": spawner_class if is_ours else DRASpawner}
        for role in roles.get_default_roles():
            roles.create_role(self._db, role)
        for name in SAMPLE_USERS:
            user = orm.User(name=name)
            self._db.add(user)
            self._db.commit()
            roles.assign_default_roles(self._db, user)

    def new(self, name: str) -> DRASpawner:
        """Return a new spawner of a sample user. It starts no server."""
        user: Any = User(orm.User.find(self._db, name), dict(self._settings), db=self._db)
        return cast(DRASpawner, user.spawners[""])
