"""Files that an administrator copies are valid, and grant used rights only."""

import pytest
import yaml

from dra_spawner.profiles import profile_list_problems
from tests.chart_values import ROOT, needs_schema, problems
from tests.cluster.access import HUB_USERS_RULES, SHIPPED_RULES, Rules, shipped_objects


@pytest.fixture
def values():
    return yaml.safe_load((ROOT / "helm-values" / "minimal.yaml").read_text())


@needs_schema
def test_values_fit_the_chart(values):
    assert problems(values) == []


@needs_schema
def test_the_schema_would_find_a_typo(values):
    values["singleuser"]["profilelist"] = []
    assert any("profilelist" in problem for problem in problems(values))


def test_profiles_of_the_values_are_sound(values):
    profiles = values["singleuser"]["profileList"]
    assert len(profiles) == 2
    assert profile_list_problems(profiles) == []


def test_values_set_the_spawner_up(values):
    (code,) = values["hub"]["extraConfig"].values()
    compile(code, "extraConfig", "exec")
    assert "setup(c)" in code


def granted(rules: Rules = SHIPPED_RULES) -> list[tuple[str, str, str]]:
    """Group, resource and verb of all that rules grant."""
    return sorted(
        (group, resource, verb)
        for document in shipped_objects("jupyterhub", rules)
        for rule in document.get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    )


def test_rules_of_user_namespaces_are_the_ones_that_are_used():
    """As tests/chart/test_whole_chart.py uses them."""
    assert granted(HUB_USERS_RULES) == sorted(
        [
            *(("", "namespaces", verb) for verb in ("create", "list")),
            *(("", "events", verb) for verb in ("list", "watch")),
            *(("", "persistentvolumeclaims", verb) for verb in ("create", "delete", "get")),
            *(("", "pods", verb) for verb in ("create", "delete", "get", "list", "watch")),
            *(
                ("resource.k8s.io", kind, verb)
                for kind in ("resourceclaims", "resourceclaimtemplates")
                for verb in ("create", "delete", "list", "patch")
            ),
        ]
    )


def test_rules_are_the_ones_that_are_used():
    assert granted() == [
        *(("", "configmaps", verb) for verb in ("create", "get", "update")),
        ("", "namespaces", "get"),
        ("", "nodes", "list"),
        *(("resource.k8s.io", plural, "list") for plural in ("deviceclasses", "devicetaintrules")),
        # Listed in all namespaces to explain waiting, in the hub's own to sweep.
        *(("resource.k8s.io", "resourceclaims", verb) for verb in ("create", "delete", "list", "list", "patch")),
        *(("resource.k8s.io", "resourceclaimtemplates", verb) for verb in ("create", "delete", "list", "patch")),
        *(("resource.k8s.io", "resourceslices", "list"),),
    ]


def test_hubs_without_the_chart_get_the_rights_that_the_chart_grants():
    assert granted() == granted("-hub")
