"""Settings about placeholders: read into the layers below, refused early with path, found and allowed value."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from traitlets import TraitError
from traitlets.config import Config

from dra_spawner import names
from dra_spawner.placeholders.controller.sources.settings import read_replicas
from dra_spawner.placeholders.planner.cluster.cluster_index import Namespaces
from dra_spawner.placeholders.planner.targets.placeholder_objects import placeholder_pod
from dra_spawner.placeholders.planner.targets.policy import MAX_PLACEHOLDERS, ReplicaRange
from dra_spawner.profiles.drivers import drivers_prepare_for
from dra_spawner.profiles.syntax.settings_reader import SettingsError
from dra_spawner.service.application import DRASpawnerService
from dra_spawner.service.http.requests.limited_server import ServerLimits
from dra_spawner.service.traits.placeholder_traits import PlaceholderTraits
from dra_spawner.service.traits.unknown_settings import unknown_settings
from tests.all_of_them import all_of_them
from tests.placeholders.planner.objects import PLAIN


@all_of_them("value, expected", [
    ({}, {}),
    ({"a": {"min": 2, "max": 20}}, {"a": ReplicaRange(2, 20)}),
    ({"a": {"min": 3}}, {"a": ReplicaRange(3, 6)}),
    ({"a": {"min": 0}}, {"a": ReplicaRange(0, MAX_PLACEHOLDERS)}),
    ({"a": {"min": 0, "max": 0}}, {"a": ReplicaRange(0, 0)}),
    ({"a": {"min": 0, "max": 2}}, {"a": ReplicaRange(0, 2)}),
    ({"a/b=c": {"min": 4, "floor": 0}}, {"a/b=c": ReplicaRange(4, 8, 0)}),
])  # fmt: skip
def test_accepted(value: Any, expected: Any) -> None:
    assert read_replicas(value) == expected


@all_of_them("value, problem", [
    ([], ": found []; allowed: a mapping of names of choices to numbers of placeholders"),
    ({"a": 2}, '.a: found 2; allowed: a mapping like {"min": 2, "max": 20}'),
    ({"a": {"max": 2}}, ".a.min: nothing found; allowed: the number of placeholders at all times"),
    ({"a": {"min": -1}}, ".a.min: found -1; allowed: a whole number from 0 to 10000"),
    ({"a": {"min": True}}, ".a.min: found True; allowed: a whole number from 0 to 10000"),
    ({"a": {"min": 3, "max": 2}}, ".a.max: found 2; allowed: a whole number from 3 to 10000"),
    ({"a": {"min": 3, "floor": 4}}, ".a.floor: found 4; allowed: a whole number from 0 to 3"),
    ({"a": {"min": 3, "mx": 4}}, ".a.mx: found 'mx'; allowed: the keys min, max, floor"),
    ({3: {"min": 3}}, ": found 3; allowed: names of choices, like gpu-slice or gpu-slice/memory=large"),
])  # fmt: skip
def test_refused(value: Any, problem: str) -> None:
    with pytest.raises(SettingsError) as refused:
        read_replicas(value)
    assert str(refused.value) == f"placeholders{problem}"
    if isinstance(value, dict):
        with pytest.raises(TraitError, match=r"^placeholders"):
            DRASpawnerService(placeholders=value)


def test_every_problem_is_reported_at_once() -> None:
    with pytest.raises(SettingsError) as refused:
        read_replicas({"a": 1, "b": {"min": "2"}})
    assert [problem.path for problem in refused.value.problems] == ["placeholders.a", "placeholders.b.min"]


def test_settings_reach_the_layers_below() -> None:
    service = DRASpawnerService(
        namespace="hub",
        servers_namespace="users",
        placeholders={"a": {"min": 1}},
        reservation_seconds=20,
        evictions_per_second=0.5,
        evictions_burst=3,
        evictions_per_node=1,
        drain_after_seconds=60,
        ready_images=["example.com/a:1"],
        max_staleness_seconds=90,
        placeholder_image="pause:1",
        placeholder_image_pull_secrets=["registry"],
        placeholder_priority_class="low",
        user_namespaces=True,
        node_kinds=[{"name": "a100", "slots": 8, "lead_minutes": 9, "max_nodes": 60}],
        autoscaler=True,
    )
    found = service.controller_settings()
    assert (found.max_nodes, found.has_autoscaler) == ({"a100": 60}, True)
    assert (found.hub_namespace, found.replicas) == ("hub", {"a": ReplicaRange(1, 2)})
    # Servers may be in any namespace; placeholders and image pullers are where users create nothing.
    assert found.namespaces == Namespaces(None, frozenset(("users",)), frozenset(("hub", "users")), "dra-spawner")
    budget, grace = found.policy.budget, found.policy.grace
    assert (budget.per_second, budget.burst, budget.per_node) == (0.5, 3, 1)
    assert (grace.new_node, grace.freed_node) == (timedelta(minutes=1), timedelta(minutes=1))
    assert grace.reservation == timedelta(seconds=20)
    assert found.policy.stale_after == timedelta(seconds=90)
    assert found.policy.readiness.images == {"example.com/a:1"}
    assert (found.policy.placeholder_priority_class, found.policy.placeholder_pull_secrets) == ("low", {"registry"})
    placeholders = found.placeholders
    assert (placeholders.namespace, placeholders.priority_class, placeholders.image) == ("users", "low", "pause:1")
    assert placeholder_pod(PLAIN, "p", placeholders)["spec"]["imagePullSecrets"] == [{"name": "registry"}]


PLACEHOLDERS = "DRASpawnerService.placehodlers is not a setting. Did you mean DRASpawnerService.placeholders?"
RESERVATION = "DRASpawnerService.reservation_secs is not a setting. Did you mean DRASpawnerService.reservation_seconds?"


@all_of_them("settings, problems", {
    "known": ({"DRASpawnerService": {"placeholders": {}, "url": "x"}, "HubOAuth": {"api_url": "x"}}, ()),
    "of parents": ({"Application": {"log_level": 10}, "HubAuth": {"api_url": "x"}}, ()),
    "of others": ({"JupyterHub": {"services": []}, "DRASpawner": {"anything": 1}}, ()),
    "typing errors": (
        {"DRASpawnerService": {"placehodlers": {}, "reservation_secs": 3}}, (PLACEHOLDERS, RESERVATION)
    ),
    "nothing like it": ({"DRASpawnerService": {"colour": 1}}, ("DRASpawnerService.colour is not a setting.",)),
    "a class misspelt": (
        {"DraSpawnerServce": {"placeholders": {}}}, ("DraSpawnerServce has no settings. Did you mean DRASpawnerService?",)
    ),
})  # fmt: skip
def test_settings_that_nobody_reads(settings: dict[str, Any], problems: tuple[str, ...]) -> None:
    assert unknown_settings(Config(settings), (DRASpawnerService, *DRASpawnerService.classes)) == problems


def test_a_typing_error_in_the_file_is_shown_on_the_page_and_one_on_the_command_line_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.py"
    path.write_text("c.DRASpawnerService.placehodlers = {'gpu': {'min': 1}}")
    service = DRASpawnerService(namespace="hub")
    service.initialize(["--config", str(path)])
    assert service.new_context().problems() == (PLACEHOLDERS,)
    for arguments, stderr_text in (
        (["--DRASpawnerService.placehodlers=1"], PLACEHOLDERS),
        (["--placehodlers=1"], "--placehodlers is not a setting. Did you mean --DRASpawnerService.placeholders?"),
        (["placeholders"], "placeholders is unknown"),
    ):
        with pytest.raises(SystemExit) as refused:
            DRASpawnerService(namespace="hub").initialize(arguments)
        assert refused.value.code == 1
        assert stderr_text in capsys.readouterr().err


def test_a_printed_configuration_can_be_filled_in(tmp_path: Path) -> None:
    """It explains all settings; a value that is filled in is used."""
    command: list[str | Path] = [Path(sys.executable).with_name("dra-spawner"), "service", "--generate-config"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240).stdout
    empty = "# c.DRASpawnerService.placeholders = {}"
    names = {line.split(" ")[1] for line in printed.splitlines() if line.startswith("# c.DRASpawnerService.")}
    assert {f"c.DRASpawnerService.{name}" for name in PlaceholderTraits.class_trait_names(config=True)} <= names
    path = tmp_path / "config.py"
    path.write_text(printed.replace(empty, "c.DRASpawnerService.placeholders = {'gpu': {'min': 1, 'max': 2}}"))
    service = DRASpawnerService(namespace="hub")
    service.initialize(["--config", str(path)])
    assert service.placeholders == {"gpu": {"min": 1, "max": 2}}
    assert service.new_context().problems() == ()


def test_defaults_are_those_of_the_policy() -> None:
    found = DRASpawnerService(namespace="hub").controller_settings()
    default = type(found.policy)()
    outside = replace(
        default,
        drivers_prepare_for=drivers_prepare_for(),
        placeholder_image=names.PAUSE_IMAGE,
        placeholder_priority_class=names.PRIORITY_CLASS,
    )
    assert found.policy == outside
    hub = frozenset(("hub",))
    assert found.namespaces == Namespaces(hub, hub, hub, "dra-spawner")


def test_placeholders_have_the_name_of_the_lease() -> None:
    """As far as a label may be long."""
    for lease, label in (("gpus", "gpus"), (f"{'x' * 62}.y", "x" * 62)):
        found = DRASpawnerService(namespace="hub", lease_name=lease).controller_settings()
        assert found.placeholders.labels == {names.INSTALLATION: label}


def test_limits_of_one_client() -> None:
    assert DRASpawnerService().server_limits() == ServerLimits()
    limits = DRASpawnerService(max_connections=20, header_seconds=1, body_seconds=2, answer_seconds=3).server_limits()
    assert (limits.connections, limits.request_seconds) == (20, 6)
    for name, value in (("max_connections", 9), ("header_seconds", 0), ("max_header_bytes", 10)):
        with pytest.raises(TraitError):
            DRASpawnerService(**{name: value})
