"""What `dra-spawner check` says of settings of the hub and of the service beside it."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
import yaml

from dra_spawner.commands.checking.check_command import CheckOptions, run_check
from dra_spawner.commands.checking.hub_setting_findings import JUDGED
from dra_spawner.commands.checking.trait_values import trait_problems
from tests.all_of_them import all_of_them
from tests.chart_values import ROOT

SERVICE = "dra-spawner.service.config"
HUB = "jupyterhub.hub.config.DRASpawner"
PROFILE = "jupyterhub.singleuser.profileList[0].kubespawner_override"
TARGETS = {"enabled": True, "targets": {"gpu": {"min": 0}}}
DATABASE = {"url": "postgresql://dra@db/history"}
#: A role that gives the service all scopes.
ROLE = {"service": {"scopes": ["list:groups", "admin:groups", "admin:servers"], "services": ["dra-spawner"]}}


def checked(tmp_path, tree: Any, *options: str) -> list[tuple[str, str, str]]:
    """Level, path and message of each general finding."""
    path, output = tmp_path / "values.yaml", io.StringIO()
    path.write_text(yaml.safe_dump(tree))
    run_check(CheckOptions((str(path),), objects=options, as_json=True), io.BytesIO(), output, io.StringIO())
    return [(each["level"], each["path"], each["message"]) for each in json.loads(output.getvalue())["general"]]


def hub(settings: Any = None, override: Any = None, roles: Any = None, **more: Any) -> Any:
    asked = {"device_claims": {"gpu": {"device_class": "gpu.example.com"}}, **(override or {})}
    config = {"JupyterHub": {"spawner_class": "dra"}, **({"DRASpawner": settings} if settings else {})}
    return {
        "hub": {"config": config, "services": {"dra-spawner": {}}, **({"loadRoles": roles} if roles else {})},
        "singleuser": {"profileList": [{"display_name": "GPU", "slug": "gpu", "kubespawner_override": asked}], **more},
        "scheduling": {"userScheduler": {"enabled": False}},
    }


def service(config: Any, placeholders: Any = TARGETS, history: Any = DATABASE, **more: Any) -> Any:
    return {"placeholders": placeholders, "history": history, "service": {"config": config}, **more}


def both(config: Any, of_hub: Any = None, **more: Any) -> Any:
    return {"jupyterhub": of_hub or hub(roles=ROLE), "dra-spawner": service(config, **more)}


def idle(policies: Any = None, **prometheus: Any) -> Any:
    found = {"prometheus": {"url": "https://prometheus", "queries": ["dcgm"], **prometheus}} if prometheus else {}
    return {"idle_servers": {**found, "policies": policies or {"gpu": {"after_minutes": 60}}}}


def budget(**more: Any) -> Any:
    return {"enforce_budgets": True, "budgets": {"policy": [{"limit": {"value": 40}, "window": 7, **more}]}}


OPEN = {"extraEgress": [{"ports": [{"port": 9090}]}]}
HIS_GROUP = {"scope": {"group": ["maths"]}, "per": "group"}
W = "warning"
EVERY = {"device_claims": {"gpu": {"device_class": "gpu.example.com", "count": "all"}}}
LISTED = {
    "device_claims": {"gpu": {"first_available": [{"name": name, "device_class": name} for name in ("large", "small")]}}
}

CASES: dict[str, tuple[Any, list[tuple[str, str]]]] = {
    "sound": (both({**idle(queries=["dcgm"]), **budget(**HIS_GROUP), "pack_devices": True}), []),
    "sound tickets": (both({"tickets": True}, hub({"tickets": True})), []),
    "words for a switch": (both({"tickets": "yes", "pack_devices": 3}), [
        ("error", f"{SERVICE}.tickets"), ("error", f"{SERVICE}.pack_devices"),
    ]),
    "a setting that does not exist": (both({"enforce_budget": True}), [("error", f"{SERVICE}.enforce_budget")]),
    "a hold too short": (both({"ticket_hold_seconds": 5}), [("error", f"{SERVICE}.ticket_hold_seconds")]),
    "a hold longer than a start": (both({"tickets": True, "ticket_hold_seconds": 900}, hub({"tickets": True})), [
        (W, f"{SERVICE}.ticket_hold_seconds"),
    ]),
    "a start as long as the hold": (
        both({"tickets": True, "ticket_hold_seconds": 900}, hub({"tickets": True}, startTimeout=900)), [],
    ),
    "tickets without rights": (both({"tickets": True}, hub({"tickets": True}), placeholders={"enabled": False}), [
        (W, f"{SERVICE}.tickets"),
    ]),
    "tickets of the hub alone": (both({}, hub({"tickets": True})), [(W, f"{HUB}.tickets")]),
    "tickets of the service alone": (both({"tickets": True}), [(W, f"{SERVICE}.tickets")]),
    "queues in two namespaces": (
        both({"tickets": True, "tickets_namespace": "a"}, hub({"tickets": True, "tickets_namespace": "b"})),
        [(W, f"{SERVICE}.tickets_namespace")],
    ),
    "a preset that does not exist": (both(idle(queries=["dcgmm"])), [
        ("error", f"{SERVICE}.idle_servers.prometheus.queries[0]"),
    ]),
    "no address": (both(idle(url=None)), [("error", f"{SERVICE}.idle_servers.prometheus.url")]),
    "passwords in addresses": (
        both(
            {**idle(url="https://dra:s3cret@prometheus"), "class_webhook": {"url": "https://:s3cret@example.org/hook"}},
            history={"url": "postgresql://dra:s3c/ret@db/h"},
        ),
        [
            ("error", "dra-spawner.history.url"),
            ("error", f"{SERVICE}.idle_servers"),
            ("error", f"{SERVICE}.class_webhook"),
        ],
    ),
    "a policy of no profile": (both(idle({"gpuu": {"after_minutes": 60}})), [
        (W, f"{SERVICE}.idle_servers.policies.gpuu"),
    ]),
    "a warning longer than the idle time": (both(idle({"*": {"after_minutes": 10, "notice_minutes": 15}})), [
        (W, f"{SERVICE}.idle_servers.policies.*.notice_minutes"),
    ]),
    "a policy that comes after the end": (both(idle(), hub({"devices_lifetime": 3600}, roles=ROLE)), [
        (W, f"{SERVICE}.idle_servers.policies.gpu"),
    ]),
    "a policy that comes after the hub's own": (both(idle(), hub(override={"devices_idle_timeout": 600}, roles=ROLE)), [
        (W, f"{SERVICE}.idle_servers.policies.gpu"),
    ]),
    "no scope to stop servers": (
        both(idle(), hub(roles={"s": {"scopes": ["read:servers"], "services": ["dra-spawner"]}})),
        [(W, f"{SERVICE}.idle_servers.policies")],
    ),
    "no scope to read groups": (both(budget(**HIS_GROUP), hub()), [(W, f"{SERVICE}.budgets")] * 2),
    "Prometheus behind a network policy": (both(idle(url="http://prometheus:9090")), [
        (W, f"{SERVICE}.idle_servers.prometheus.url"),
    ]),
    "Prometheus that may be reached": (both(idle(url="http://prometheus:9090"), networkPolicy=OPEN), []),
    "idle servers without targets": (both(idle(), placeholders={"enabled": True, "targets": {}}), [
        (W, f"{SERVICE}.idle_servers"),
    ]),
    "packing without targets": (both({"pack_devices": True}, placeholders={"enabled": False}), [
        (W, f"{SERVICE}.pack_devices"),
    ]),
    "packing without lists of alternatives": (
        both({"pack_devices": True, "kubernetes_feature_gates": {"DRAPrioritizedList": False}}),
        [(W, f"{SERVICE}.pack_devices"), (W, f"{SERVICE}.kubernetes_feature_gates")],
    ),
    "packing of all devices of a node": (both({"pack_devices": True}, hub(override=EVERY)), [
        ("info", f"{SERVICE}.pack_devices"),
    ]),
    "packing beside a list of alternatives": (both({"pack_devices": True}, hub(override=LISTED)), [
        ("info", f"{SERVICE}.pack_devices"),
    ]),
    "a limit of a driver that is none": (both(budget(resource="gpus")), [(W, f"{SERVICE}.budgets")]),
    "a limit that is none": (both(budget(limit=-1)), [("error", f"{SERVICE}.budgets.policy[0].limit.value")]),
    "enforced without budgets": (both({"enforce_budgets": True}), [(W, f"{SERVICE}.enforce_budgets")]),
    "no history": (both(budget(), history={"keepDays": 0}), [(W, f"{SERVICE}.budgets")]),
    "a history in memory": (both(budget(), history={}), [(W, f"{SERVICE}.budgets")]),
    "a history shorter than the window": (both(budget(window=90), history={**DATABASE, "keepDays": 30}), [
        (W, f"{SERVICE}.budgets"),
    ]),
    "a price of nothing": (both({"budgets": {"prices": {"gp": 2, "gpu": 3, "gpu.nvidia.com": 4}}}), [
        (W, f"{SERVICE}.budgets.prices.gp"),
    ]),
    "a service alone": ({"service": {"config": {"tickets": "yes"}}}, [("error", "service.config.tickets")]),
    "a lifetime too short": (both({}, hub({"devices_lifetime": 5})), [("error", f"{HUB}.devices_lifetime")]),
    "a lifetime of words in a profile": (both({}, hub(override={"devices_lifetime": "1h"})), [
        ("error", f"{PROFILE}.devices_lifetime"),
    ]),
    "a notice from the start on": (
        both({}, hub({"devices_lifetime_notice": 3600}, {"devices_lifetime": 3600})),
        [(W, f"{HUB}.devices_lifetime_notice")],
    ),
    "idle for longer than it lives": (
        both({}, hub(override={"devices_lifetime": 3600, "devices_idle_timeout": 7200})),
        [(W, f"{PROFILE}.devices_idle_timeout")],
    ),
    "others that do not exist": (both({}, hub({"instead": ["nope"]})), [("error", f"{HUB}.instead[0]")]),
    "to take nothing": (both({}, hub(override={"take_instead": True})), [(W, f"{PROFILE}.take_instead")]),
    "no tickets for a user": (both({}, hub({"max_tickets_per_user": 0})), [("error", f"{HUB}.max_tickets_per_user")]),
}  # fmt: skip


@all_of_them("tree, expected", CASES)
def test_settings(tmp_path, tree, expected):
    found = [(level, path) for level, path, _ in checked(tmp_path, tree)]
    assert sorted(found) == sorted(expected)


def test_a_driver_that_the_cluster_lacks(tmp_path):
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    objects = tmp_path / "objects.json"
    devices = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {"driver": "gpu.example.com", "nodeName": "n", "pool": pool, "devices": [{"name": "gpu-0"}]},
    }
    objects.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [devices]}))
    found = checked(tmp_path, both(budget(resource="gpu.exmaple.com")), str(objects))
    assert (W, f"{SERVICE}.budgets") in [each[:2] for each in found]
    (message,) = (message for _, path, message in found if path == f"{SERVICE}.budgets")
    assert message == "gpu.exmaple.com is no driver of the cluster's devices; did you mean gpu.example.com"


def test_an_address_with_a_password_is_not_shown(tmp_path):
    secret = "postgresql://dra:hunter2@db/history"
    found = checked(tmp_path, both({"history": secret, "idle_servers": secret}))
    assert {each[0] for each in found} == {"error"}
    assert "hunter2" not in str(found)


def test_the_shipped_values_have_no_findings(tmp_path):
    values = yaml.safe_load((ROOT / "helm-values" / "full.yaml").read_text())
    chart = yaml.safe_load((ROOT / "helm-values" / "chart" / "values.yaml").read_text())
    assert checked(tmp_path, {"jupyterhub": values, "dra-spawner": chart}) == []


def test_all_own_traits_are_judged():
    from dra_spawner.spawner.settings import SpawnerSettings

    language = {"common_profile_options", "device_claims", "intel_gas", "user_options", "vlans"}
    assert SpawnerSettings.class_own_traits().keys() == JUDGED | language


@pytest.mark.parametrize("value", [None, 3.5, [], {"a": 1}, "x" * 1000])
def test_any_value_is_judged(value):
    from dra_spawner.spawner.settings import SpawnerSettings

    for name in JUDGED:
        for problem in trait_problems(SpawnerSettings, name, value, "here"):
            assert problem.path.startswith("here"), name
            assert problem.allowed, name
            assert len(str(problem)) < 500, name


def test_a_configuration_file_of_the_service_is_judged_alone_and_beside_a_hub(tmp_path):
    """It was read as a hub's without profiles: nothing was checked, and nothing was found."""
    own = tmp_path / "dra_spawner_service_config.py"
    own.write_text(
        "c.DRASpawnerService.tickets = 'yes'\n"
        "c.DRASpawnerService.scale_a_head = 'act'\n"
        "c.DRASpawnerService.placeholders.update({'gpu': {'min': 1}})\n"
        "c.DRASpawnerService.history = {'url': 'postgresql://dra:from-a-secret@db/h'}\n"
        "c.DRASpawnerService.idle_servers = {'policies': {'gpuu': {'after_minutes': 60}}}\n"
    )
    of_hub = tmp_path / "jupyterhub_config.py"
    claims = {"device_claims": {"gpu": {"device_class": "gpu.example.com"}}}
    profile = {"display_name": "GPU", "slug": "gpu", "kubespawner_override": claims}
    of_hub.write_text(f"c.JupyterHub.spawner_class = 'dra'\nc.KubeSpawner.profile_list = [{profile!r}]\n")
    wrong = {("error", "c.DRASpawnerService.tickets"), ("error", "c.DRASpawnerService.scale_a_head")}
    beside = (W, "c.DRASpawnerService.idle_servers.policies.gpuu")
    in_one = tmp_path / "in_one.py"
    in_one.write_text(of_hub.read_text() + own.read_text())
    for files, expected in (((own,), wrong), ((of_hub, own), {*wrong, beside}), ((in_one,), {*wrong, beside})):
        output, messages = io.StringIO(), io.StringIO()
        assert run_check(CheckOptions(tuple(map(str, files)), as_json=True), io.BytesIO(), output, messages) == 1
        found = json.loads(output.getvalue())["general"]
        assert {(each["level"], each["path"]) for each in found} == expected, messages.getvalue()
    messages = io.StringIO()
    assert run_check(CheckOptions((str(own), str(own))), io.BytesIO(), io.StringIO(), messages) == 2
    assert "one configuration file each" in messages.getvalue()
