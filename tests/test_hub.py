"""What a hub does at its start: what it checks, what ends it, and what does not."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from jupyterhub.app import JupyterHub
from traitlets.config import Config

from dra_spawner import hub
from dra_spawner.spawner import DRASpawner
from tests.all_of_them import all_of_them
from tests.cluster.control_plane import write_kubeconfig
from tests.spawner.hub_side import end_hub_side, kubernetes_of

PRELUDE = """
from kubespawner import KubeSpawner
from dra_spawner.hub import setup
from dra_spawner.spawner import DRASpawner
gpu = {"display_name": "GPU", "slug": "gpu", "kubespawner_override": {"device_claims": {"gpu": {"device_class": "gpu.example.com"}}}}
cpu = {"display_name": "CPU", "slug": "cpu"}


class HubSpawner(KubeSpawner):
    pass


class Hostile(KubeSpawner):
    def __init__(self, *args, **kwargs):
        raise AttributeError(f"no authenticator of {kwargs['user'].name}")

    def __getattribute__(self, name):
        raise LookupError("by a test")
"""


@pytest.fixture
async def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """A cluster whose API server does not exist, and no hub afterwards."""
    monkeypatch.delitem(sys.modules, "z2jh", raising=False)
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", {"server": "http://127.0.0.1:1"}, "none", "default")
    with kubernetes_of(kubeconfig):
        yield
        await end_hub_side()
    JupyterHub.clear_instance()
    sys.modules.pop("z2jh", None)


async def begun(text: str) -> tuple[int, list[str]]:
    """How a hub with a configuration begins: its exit code, or 0; and its warnings and errors."""
    JupyterHub.clear_instance()
    c = Config(KubeSpawner={"namespace": "jupyterhub"})
    # In a thread no loop runs, so that only this test begins.
    await asyncio.to_thread(exec, PRELUDE + text, {"c": c})
    logged: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: logged.append(f"{record.levelname} {record.getMessage()}")  # type: ignore[method-assign]
    app = JupyterHub.instance(config=c)
    app.log.addHandler(handler)
    try:
        hub.begin(app)
    except SystemExit as ended:
        return int(ended.code or 0), logged
    finally:
        app.log.removeHandler(handler)
    return 0, logged


SET_AFTER = "setup(c)\nc.JupyterHub.spawner_class = "
NO_DEVICES = "CRITICAL The hub ends, as no server of a profile with devices could start. c.JupyterHub.spawner_class is "


@all_of_them(
    "text, code, named",
    {
        "nothing special": ("c.KubeSpawner.profile_list = [gpu]\nsetup(c)", 0, ""),
        "a class of its own": ("c.JupyterHub.spawner_class = HubSpawner\nc.HubSpawner.profile_list = [gpu]\nsetup(c)", 0, "INFO HubSpawner is based on KubeSpawner"),
        "set after": (f"c.KubeSpawner.profile_list = [gpu]\n{SET_AFTER}HubSpawner", 1, f"{NO_DEVICES}HubSpawner"),
        "KubeSpawner after": (f"c.DRASpawner.profile_list = [gpu]\n{SET_AFTER}KubeSpawner", 1, f"{NO_DEVICES}kubespawner.spawner.KubeSpawner"),
        "claims of all": (f"c.DRASpawner.device_claims = {{'gpu': {{'device_class': 'a'}}}}\n{SET_AFTER}'simple'", 1, NO_DEVICES),
        "added": (f"c.HubSpawner.profile_list.append(gpu)\n{SET_AFTER}HubSpawner", 1, NO_DEVICES),
        "no devices": (f"c.KubeSpawner.profile_list = [cpu]\n{SET_AFTER}HubSpawner", 0, "WARNING c.JupyterHub.spawner_class is"),
        "another before": ("c.JupyterHub.spawner_class = 'simple'\nsetup(c)", 0, "WARNING c.JupyterHub.spawner_class is jupyterhub"),
        "code that fails": ("c.JupyterHub.spawner_class = Hostile\nc.Hostile.profile_list = [gpu]\nsetup(c)", 0, ""),
        "wrong profiles of it": (
            "c.JupyterHub.spawner_class = Hostile\nc.Hostile.profile_list = [{**gpu, 'kubespawner_override': {'device_claims': {'gpu': {}}}}]\nsetup(c)",
            1,
            "CRITICAL Wrong device profile: profile_list[0]",
        ),
        "wrong setting": ("c.DRASpawner.retry_failed_pod_after_seconds = 'x'\nsetup(c)", 1, "CRITICAL The hub ends because of a wrong setting"),
        "roles after those of the service": ("c.JupyterHub.services = [{'name': 'dra-spawner'}]\nc.JupyterHub.load_roles = [{'name': 'a'}]\nsetup(c)", 0, "WARNING c.JupyterHub.load_roles has no role of the service dra-spawner"),
        "roles of nobody": ("c.JupyterHub.services = [{'name': 'dra-spawner'}]\nc.JupyterHub.load_roles = [{'name': 'a', 'services': None}]\nsetup(c)", 0, "WARNING c.JupyterHub.load_roles has no role of the service dra-spawner"),
        "a queue without its service": ("setup(c)\nc.DRASpawner.tickets = True", 0, "WARNING c.DRASpawner.tickets is on, but this hub has no service 'dra-spawner'"),
        "a queue with namespaces of users": ("setup(c)\nc.DRASpawner.tickets = c.DRASpawner.enable_user_namespaces = True", 0, "WARNING c.DRASpawner.tickets is on, but no device is held"),
        "a chart that fails": (
            "import sys, types\nsys.modules['z2jh'] = types.SimpleNamespace(get_config=lambda *_: 1 / 0)\nsetup(c)",
            0,
            "ERROR Could not look for unsupported versions",
        ),
    },
)  # fmt: skip
async def test_how_a_hub_begins(nowhere: None, text: str, code: int, named: str) -> None:
    found, logged = await begun(text)
    assert found == code, logged
    assert any(each.startswith(named) for each in logged) or not named, logged
    if not code and not named:
        assert not [each for each in logged if not each.startswith("INFO")], logged


def test_nothing_else_of_the_hubs_configuration_is_touched() -> None:
    """Whatever is set before and after."""
    text = """
c.JupyterHub.services = [{"name": "cull"}]
c.JupyterHub.load_roles = [{"name": "cull", "services": ["cull"]}]
c.JupyterHub.template_paths = ["/etc/templates"]
c.JupyterHub.template_vars = {"a": 1}
c.JupyterHub.extra_handlers = [("/x", object)]
c.KubeSpawner.options_form = c.KubeSpawner.options_from_form = c.KubeSpawner.apply_user_options = print
c.KubeSpawner.pre_spawn_hook = c.KubeSpawner.post_stop_hook = c.KubeSpawner.modify_pod_hook = print
"""
    before, after = Config(), Config()
    exec(PRELUDE + text, {"c": before})
    exec(PRELUDE + text + "setup(c)", {"c": after})
    assert after.JupyterHub.pop("spawner_class") is DRASpawner
    assert before == after


@all_of_them(
    "configured",
    {
        "a list": [{"name": "cull"}],
        "a tuple": ({"name": "cull"},),
        "nothing": None,
        "the service itself": [{"name": "dra-spawner", "url": "http://own"}],
    },
)
def test_a_service_is_added_to_whatever_a_hub_has(configured: object) -> None:
    c = Config({"JupyterHub": {} if configured is None else {"services": configured}})
    hub.add_named(c.JupyterHub, "services", [{"name": "dra-spawner"}])
    found = c.JupyterHub.services
    entries = found.get_value([]) if configured is None else found
    own = [each for each in entries if each["name"] == "dra-spawner"]
    assert own == [{"name": "dra-spawner", **({"url": "http://own"} if "http://own" in str(configured) else {})}]
    assert len(entries) == 1 + ("cull" in str(configured))
