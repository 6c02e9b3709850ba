"""JupyterHub's own side of a spawn, in this process: its users, its database, its start and stop; only the web is left out."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from jupyterhub import orm, roles
from jupyterhub.objects import Hub
from jupyterhub.user import User
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import kube_config
from kubespawner.clients import load_config
from traitlets.config import Config

from dra_spawner.spawner import DRASpawner
from dra_spawner.spawner.hub_parts.hub_wide import forget_hub


def cancel_start(spawner: DRASpawner) -> None:
    """Cancel a start that is pending, as JupyterHub does."""
    spawner._start_future.cancel()


async def asked_at_the_start(spawner: DRASpawner) -> int | None:
    """Return the answer of `poll` about a server that the database of a hub that starts knows."""
    spawner._check_pending = True
    try:
        return await spawner.poll()
    finally:
        spawner._check_pending = False


class HubSide:
    """Makes users whose servers DRASpawner starts on the cluster of a kubeconfig."""

    def __init__(self, kubeconfig: Path, namespace: str, spawner_class: type = DRASpawner) -> None:
        self.config = Config()
        section = self.config[spawner_class.__name__]
        section.namespace = namespace
        section.start_timeout = 90
        section.http_timeout = 60
        section.k8s_api_request_timeout = 20
        section.k8s_api_request_retry_timeout = 60
        section.image = "example/notebook:1"
        section.cmd = ["notebook"]
        self.kubeconfig = kubeconfig
        self.spawner_class = spawner_class
        self.db = orm.new_session_factory("sqlite:///:memory:")()
        for role in roles.get_default_roles():
            roles.create_role(self.db, role)
        self.db.add(orm.OAuthClient(identifier="jupyterhub"))
        self.db.commit()
        self._hub = Hub(ip="127.0.0.1", port=18081, base_url="/hub/")

    @property
    def spawner_config(self) -> Config:
        return self.config[self.spawner_class.__name__]

    @property
    def settings(self) -> dict[str, Any]:
        """Those of the hub's web application that concern users."""
        return {
            "config": self.config,
            "base_url": "/",
            "hub": self._hub,
            "spawner_class": self.spawner_class,
            "db": self.db,
            "cookie_name": "test",
            "internal_ssl": False,
            "app": None,
            "statsd": SimpleNamespace(incr=lambda *_: None, timing=lambda *_: None),  # JupyterHub 5 counts with it
        }

    def user(self, name: str, *groups: str) -> User:
        """A user of the hub, with these groups."""
        found = orm.User.find(self.db, name)
        if found is None:
            found = orm.User(name=name)
            self.db.add(found)
            self.db.commit()
            roles.assign_default_roles(self.db, found)
        for group in groups:
            there = orm.Group.find(self.db, group) or orm.Group(name=group)
            if there not in found.groups:
                found.groups.append(there)
            self.db.commit()
        return User(found, self.settings, db=self.db)

    def spawner(self, user: User, server_name: str = "") -> DRASpawner:
        """A user's spawner, of the default server or of a named one."""
        if server_name and server_name not in user.orm_user.orm_spawners:
            self.db.add(orm.Spawner(name=server_name, user=user.orm_user))
            self.db.commit()
        return user.spawners[server_name]


@contextlib.contextmanager
def kubernetes_of(kubeconfig: Path) -> Iterator[None]:
    """Let KubeSpawner, which keeps its configuration for the process, use the cluster of this file."""
    # The client reads $KUBECONFIG when it is imported.
    before, kube_config.KUBE_CONFIG_DEFAULT_LOCATION = kube_config.KUBE_CONFIG_DEFAULT_LOCATION, str(kubeconfig)
    load_config.cache_clear()
    Configuration.set_default(None)
    DRASpawner.reflectors.clear()
    try:
        yield
    finally:
        kube_config.KUBE_CONFIG_DEFAULT_LOCATION = before
        load_config.cache_clear()
        Configuration.set_default(None)


async def end_hub_side() -> None:
    """Stop the parts that spawners share in a process: reflectors, sweeps, clients."""
    await DRASpawner._stop_all_reflectors()
    forget_hub()
    logging.getLogger("traitlets").handlers.clear()
