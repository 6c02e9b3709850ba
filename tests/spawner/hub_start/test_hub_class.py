"""A hub's own spawner class: with devices it is what ``class X(DRASpawner)`` would be, and its settings are read without its code."""

from __future__ import annotations

from typing import Any, ClassVar

from jupyterhub.spawner import LocalProcessSpawner, SimpleLocalProcessSpawner
from kubespawner import KubeSpawner
from traitlets import Dict, Unicode, default
from traitlets.config import Config

from dra_spawner.hub import setup
from dra_spawner.spawner import DRASpawner
from dra_spawner.spawner.hub_start.hub_class import (
    asks_for_devices,
    class_problem,
    is_combined,
    spawner_class_of,
    with_devices,
    without_code_of_others,
)
from dra_spawner.spawner.placement.pod import manifest_of
from tests.all_of_them import all_of_them

GPU = {"gpu": {"device_class": "gpu.example.com"}}


class Audit:
    """As BinderHub's: a mixin that changes what KubeSpawner gets."""

    environment: dict[str, str]

    async def get_pod_manifest(self) -> Any:
        self.environment = {**self.environment, "AUDIT": "1"}
        return await super().get_pod_manifest()  # type: ignore[misc]


def own(base: Any) -> Any:
    """A hub's class on a base."""

    class HubSpawner(Audit, base):
        site = Unicode("lab").tag(config=True)

        async def get_pod_manifest(self) -> Any:
            pod = await super().get_pod_manifest()
            pod.metadata.labels["site"] = self.site
            return pod

    return HubSpawner


def refusing(base: Any) -> Any:
    class NoSubclass(base):
        def __init_subclass__(cls) -> None:
            raise RuntimeError("by a test")

    return NoSubclass


Own = own(KubeSpawner)
OnOurs = own(DRASpawner)
Refusing = refusing(KubeSpawner)


@all_of_them(
    "configured, base, has_devices",
    {
        "nothing": (None, DRASpawner, True),
        "the chart's": (KubeSpawner, DRASpawner, True),
        "its name": ("kubespawner", DRASpawner, True),
        "its dotted name": ("kubespawner.KubeSpawner", DRASpawner, True),
        "ours": ("dra_spawner.spawner.DRASpawner", DRASpawner, True),
        "our name": ("dra", DRASpawner, True),
        "based on ours": (OnOurs, OnOurs, True),
        "based on KubeSpawner": (Own, Own, True),
        "by its name": (f"{__name__}.Own", Own, True),
        "another spawner": (SimpleLocalProcessSpawner, SimpleLocalProcessSpawner, False),
        "its name alone": ("simple", SimpleLocalProcessSpawner, False),
        "JupyterHub's own": (LocalProcessSpawner, LocalProcessSpawner, False),
        "a class that cannot be combined": (Refusing, Refusing, False),
    },
)
def test_a_class_that_is_set_before_setup_stays(configured: Any, base: type, has_devices: bool) -> None:
    c = Config()
    if configured is not None:
        c.JupyterHub.spawner_class = configured
    for _ in range(2):
        setup(c)
        found = spawner_class_of(c.JupyterHub.spawner_class)
        assert found is not None
        assert issubclass(found, base)
        assert issubclass(found, DRASpawner) == has_devices
        assert (found.__name__, found.__module__) == (base.__name__, base.__module__)


def test_what_is_no_class_is_left_to_jupyterhub() -> None:
    c = Config()
    for configured in ("no.such.Class", "no-such-name", 7, dict):
        c.JupyterHub.spawner_class = configured
        setup(c)
        assert c.JupyterHub.spawner_class == configured
    c = Config()
    assert c.JupyterHub.spawner_class  # traitlets stores a placeholder for a value that is only read
    setup(c)
    assert c.JupyterHub.spawner_class is DRASpawner


async def test_a_combined_class_is_what_would_be_written(nowhere: Any) -> None:
    combined, written = with_devices(Own), own(DRASpawner)
    assert combined.__mro__[1] is Own
    assert [each.__name__ for each in combined.__mro__[1:]] == [each.__name__ for each in written.__mro__]
    assert (is_combined(combined), is_combined(written), is_combined(DRASpawner)) == (True, False, False)
    nowhere.config.HubSpawner.site = "seminar"
    nowhere.config.KubeSpawner.cpu_limit = 2
    nowhere.config.DRASpawner.device_claims = GPU
    pods = []
    for each in (combined, written):
        nowhere.spawner_class = each
        spawner = nowhere.user("ada").spawner
        await spawner.load_user_options()
        pods.append(manifest_of(await spawner.get_pod_manifest(), spawner.api.api_client))
    one, other = pods
    assert one["spec"].pop("resourceClaims")[0]["name"] == other["spec"].pop("resourceClaims")[0]["name"] == "gpu"
    for pod in pods:
        for container in pod["spec"]["containers"]:
            container["env"] = [entry for entry in container["env"] if "TOKEN" not in entry["name"]]
    assert one == other
    assert one["metadata"]["labels"]["site"] == "seminar"
    assert {"name": "AUDIT", "value": "1"} in one["spec"]["containers"][0]["env"]


@all_of_them(
    "spawner_class, text",
    {
        "ours": (DRASpawner, ""),
        "combined": (with_devices(Own), ""),
        "the chart's": (KubeSpawner, "Remove that line."),
        "a hub's": (Own, "before setup(c) of dra_spawner.hub, or base the class on DRASpawner: class HubSpawner(DRASpawner)."),
        "not to be combined": (Refusing, "class NoSubclass(DRASpawner) in place of NoSubclass(KubeSpawner)."),
        "another": (SimpleLocalProcessSpawner, "not based on KubeSpawner, so it can have no devices: remove that line, or"),
        "a wrapper": (type("Wrapper", (LocalProcessSpawner,), {"child_class": Unicode()}), ""),
    },
)  # fmt: skip
def test_a_class_without_devices_has_a_sentence_that_says_what_to_write(spawner_class: type, text: str) -> None:
    found = class_problem(spawner_class)
    assert found.endswith(text) if text.endswith(".") else text in found
    assert bool(found) == bool(text)


def test_where_devices_are_asked_for() -> None:
    profile = {"slug": "gpu", "kubespawner_override": {"device_claims": GPU}}
    choice = {"profile_options": {"size": {"choices": {"x": {"kubespawner_override": {"intel_gas": {"count": 1}}}}}}}
    c = Config()
    c.DRASpawner.profile_list.append(profile)
    for asked in (profile, [choice], {"device_claims": GPU}, c.DRASpawner):
        assert asks_for_devices(asked), asked
    for asked in ({}, None, {"device_claims": {}}, [{"slug": "cpu"}], lambda spawner: [profile], Config().DRASpawner):
        assert not asks_for_devices(asked), asked


async def test_settings_are_read_without_the_code_of_the_class(nowhere: Any) -> None:
    class Hostile(DRASpawner):
        course = Dict().tag(config=True)
        form_shows_amounts = DRASpawner.form_shows_amounts.__class__(False).tag(config=True)

        profile_list: ClassVar[Any] = [{"slug": "gpu"}]

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            raise RuntimeError("by a test")

        @property
        def namespace(self) -> str:
            raise RuntimeError("by a test")

        @default("device_claims")
        def _claims_of_a_course(self) -> Any:
            raise RuntimeError("by a test")

        def _expand_user_properties(self, *args: Any, **kwargs: Any) -> Any:
            raise RuntimeError("by a test")

    found = without_code_of_others(Hostile)
    assert (found.__name__, found.section_names()) == ("Hostile", Hostile.section_names())
    assert {"course", "device_claims"} < set(found.class_trait_names())
    assert without_code_of_others(DRASpawner) is without_code_of_others(KubeSpawner) is DRASpawner
    c = Config(Hostile={"course": {"a": 1}, "retry_failed_pod_after_seconds": 7}, KubeSpawner={"start_timeout": 9})
    spawner = found(config=c, _mock=True)
    assert (spawner.course, spawner.retry_failed_pod_after_seconds, spawner.start_timeout) == ({"a": 1}, 7, 9)
    assert spawner.form_shows_amounts is False
    assert (spawner.device_claims, spawner.profile_list) == ({}, [{"slug": "gpu"}])
    assert spawner.namespace
