"""Values of the charts with anything anywhere: the check names what is wrong, in lines of bounded length."""

from __future__ import annotations

from itertools import count
from typing import Any

from dra_spawner.commands.checking.hub_setting_findings import hub_setting_findings
from dra_spawner.commands.checking.service_setting_findings import service_setting_findings
from dra_spawner.commands.hub_files.profiles_found import ChartValues, ProfilesFound
from dra_spawner.commands.hub_files.service_chart import service_of_hub, services_in
from dra_spawner.commands.hub_files.values_tree import merged_as_helm, without_nulls
from dra_spawner.profiles.choices import list_choices
from dra_spawner.profiles.findings import Finding
from tests.adversary.hostile_values import HOSTILE, spoiled
from tests.examples import example_count

CLAIM = {"device_claims": {"gpu": {"device_class": "gpu.example.com"}}}
VALUES: dict[str, Any] = {
    "hub": {
        "loadRoles": {"service": {"scopes": ["read:servers", "delete:servers"], "services": ["dra-spawner"]}},
        "serviceName": "dra-spawner",
    },
    "placeholders": {"enabled": True, "targets": {"gpu": {"min": 0}}},
    "history": {"url": "postgresql://dra@db/history", "keepDays": 365, "persistence": {"enabled": False}},
    "networkPolicy": {"enabled": True, "apiServerPorts": [443], "extraEgress": [{"ports": [{"port": 9090}]}]},
    "service": {
        "config": {
            "tickets": True,
            "ticket_hold_seconds": 300,
            "tickets_namespace": "hub",
            "enforce_budgets": True,
            "budgets": {
                "policy": [{"resource": "gpu.example.com", "limit": 5, "window": 7, "scope": {"group": ["a"]}, "per": "group"}],
                "prices": {"gpu": 2},
            },
            "idle_servers": {
                "prometheus": {"url": "http://prometheus:9090", "queries": ["dcgm", {"query": "q", "drivers": ["a.b"]}]},
                "policies": {"gpu": {"after_minutes": 60, "notice_minutes": 15}},
            },
            "pack_devices": True,
            "kubernetes_feature_gates": {"DRAPrioritizedList": True},
        }
    },
}  # fmt: skip
SETTINGS: dict[str, Any] = {
    "tickets": True,
    "tickets_namespace": "hub",
    "devices_lifetime": 3600,
    "devices_lifetime_notice": 600,
    "devices_idle_timeout": 1200,
    "take_instead": True,
    "instead": ["gpu"],
    "start_timeout": 300,
    "placeholder_service": "dra-spawner",
}


def found_in(values: Any, settings: Any) -> list[Finding]:
    """All findings of a hub beside a service."""
    given = {**values, "singleuser": {"startTimeout": 300}}
    profiles = [{"display_name": "GPU", "slug": "gpu", "kubespawner_override": CLAIM}]
    listed = tuple(list_choices(profiles, settings))
    found = ProfilesFound(
        "values.yaml",
        profiles,
        settings,
        chart=ChartValues("", without_nulls(given), without_nulls(merged_as_helm({}, given))),
        service=service_of_hub("", tuple(services_in(values))),
    )
    return [*hub_setting_findings(found, listed), *service_setting_findings(found, listed, {"gpu.example.com"})]


def test_anything_anywhere_in_the_values() -> None:
    assert len(found_in(VALUES, SETTINGS)) < 10
    number, step = count(), len(HOSTILE) * 50 // example_count(3_000)
    for changed, where in spoiled(VALUES, lambda: next(number) % step == 0):
        for finding in found_in(changed, SETTINGS):
            assert len(str(finding)) < 10_000, where
    for changed, where in spoiled(SETTINGS, lambda: next(number) % step == 0):
        for finding in found_in(VALUES, changed):
            assert len(str(finding)) < 10_000, where
