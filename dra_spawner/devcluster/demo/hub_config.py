"""JupyterHub's configuration file of ``dra-spawner demo``; variable settings come from the environment."""

import json
import os
import sys
from pathlib import Path

from dra_spawner import names
from dra_spawner.devcluster.demo.example_nodes import DRIVERS_PREPARE_FOR
from dra_spawner.devcluster.demo.server_users import uid_of
from dra_spawner.hub import setup

c = get_config()  # type: ignore[name-defined]  # noqa: F821  # JupyterHub puts it there
settings = json.loads(os.environ["DRA_SPAWNER_DEMO"])
directory = Path(settings["directory"])

setup(c)
c.DRASpawner.profile_list = settings["profiles"]
c.DRASpawner.namespace = settings["namespace"]
c.DRASpawner.start_timeout = 120
c.DRASpawner.http_timeout = 180
# This machine may be busy: the first server shall get a warm claim all the same.
c.DRASpawner.placement_wait_seconds = 20
c.DRASpawner.cpu_guarantee = 0.1
c.DRASpawner.mem_guarantee = "128M"
c.DRASpawner.default_url = "/lab"
if settings["own_processes"]:
    # Pods are processes of this machine: they run what is installed here.
    c.DRASpawner.image = settings["image"]
    c.DRASpawner.drivers_prepare_for = {driver: str(word) for driver, word in DRIVERS_PREPARE_FOR.items()}
    c.DRASpawner.cmd = [sys.executable, "-m", "dra_spawner.devcluster.demo.user_server"]
    c.DRASpawner.default_url = "/lab/tree/welcome.ipynb"
    c.DRASpawner.environment = {"DRA_SPAWNER_FIRST_KERNEL": "1"}
    if settings["own_users"]:
        c.DRASpawner.uid = lambda spawner: uid_of(spawner.user.id)
    elif os.geteuid() == 0:
        # A notebook server refuses to run as root, but here root started the demo.
        c.DRASpawner.args = ["--allow-root"]
elif settings["image"]:
    c.DRASpawner.image = settings["image"]

c.JupyterHub.bind_url = f"http://{settings['public_address']}:{settings['port']}"
c.JupyterHub.hub_bind_url = f"http://{settings['hub_address']}:{settings['hub_port']}"
c.JupyterHub.hub_connect_url = c.JupyterHub.hub_bind_url
c.JupyterHub.db_url = f"sqlite:///{directory / 'hub.sqlite'}"
c.JupyterHub.cookie_secret_file = str(directory / "cookie_secret")
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = settings["password"]
c.Authenticator.allow_all = True
c.Authenticator.admin_users = {settings["admin"]}
c.JupyterHub.allow_named_servers = settings["named_servers"]
c.JupyterHub.services = [{"name": "demo", "api_token": settings["api_token"]}]
if settings["placeholders"]:
    # A short form of jupyterhub_config.d/20-dra-spawner-service.py: with the demo's administrator and a teacher.
    scopes = [names.ANNOUNCE_SCOPE, names.READ_SCOPE, names.OPERATE_SCOPE, names.ADMIN_SCOPE]
    subscopes = {names.OPERATE_SCOPE: scopes[:2], names.ADMIN_SCOPE: [names.OPERATE_SCOPE]}
    c.JupyterHub.custom_scopes = {
        scope: {"description": f"Pages about devices: {scope}", "subscopes": subscopes.get(scope, [])}
        for scope in scopes
    }
    service_config = directory / "dra_spawner_service_config.py"
    service_config.write_text(
        f"c.DRASpawnerService.placeholders = {settings['placeholders']!r}\n"
        f"c.DRASpawnerService.placeholder_priority_class = {settings['placeholder_priority_class']!r}\n"
        f"c.DRASpawnerService.namespace = {settings['namespace']!r}\n"
        # Names of the demo are invented, so its page Use shows them.
        "c.DRASpawnerService.history = {'user_names': 'plain'}\n"
    )
    c.JupyterHub.services.append(
        {
            "name": names.HUB_SERVICE,
            "display": True,
            "url": f"http://127.0.0.1:{settings['service_port']}",
            "command": [
                *(sys.executable, "-m", "dra_spawner.devcluster.demo.service_process"),
                *(str(directory / "service.pid"), "--config", str(service_config)),
            ],
            "environment": {"KUBECONFIG": os.environ["KUBECONFIG"]},
            "oauth_no_confirm": True,
            # What the pages show, the administrator may do: with `delete:servers` also stop a user's server.
            "oauth_client_allowed_scopes": [*scopes, "admin-ui", "delete:servers"],
        }
    )
trying = [names.READ_SCOPE, f"access:services!service={names.HUB_SERVICE}"] if settings["placeholders"] else []
c.JupyterHub.load_roles = [
    {
        "name": "demo-administrator",
        "services": ["demo"],
        # The last two are for `dra-spawner try`.
        "scopes": ["admin:users", "admin:servers", "list:users", "read:hub", "access:servers", *trying],
    }
]
if settings["placeholders"]:
    access = f"access:services!service={names.HUB_SERVICE}"
    c.JupyterHub.load_roles += [
        {
            "name": names.SERVICE,
            "services": [names.HUB_SERVICE],
            "scopes": ["list:users", "read:servers", "list:groups", "read:groups"],
        },
        {
            "name": "dra-spawner-admin",
            "users": [settings["admin"]],
            "scopes": [names.ADMIN_SCOPE, access, "delete:servers"],
        },
        {"name": "dra-spawner-teacher", "users": ["teacher"], "scopes": [names.ANNOUNCE_SCOPE, access]},
        {"name": "user", "scopes": ["self", access]},
    ]

c.ConfigurableHTTPProxy.command = [sys.executable, "-m", "dra_spawner.devcluster.demo.streaming_proxy"]
c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{settings['proxy_api_port']}"
c.ConfigurableHTTPProxy.pid_file = str(directory / "proxy.pid")
