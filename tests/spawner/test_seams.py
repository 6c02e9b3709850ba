"""What DRASpawner replaces of KubeSpawner, and that a hub of today gets the same from both, up to the first request.

tests/integration/test_same_as_kubespawner.py goes on with a cluster.
"""

from __future__ import annotations

from pathlib import Path

import kubespawner
import pytest
from kubespawner import KubeSpawner

from dra_spawner.spawner import DRASpawner
from tests.integration.hub_endings import ENDINGS, ENDINGS_OF_THE_HUB
from tests.spawner import hub_form_patterns
from tests.spawner.hub_patterns import PATTERNS
from tests.spawner.hub_side import HubSide
from tests.spawner.side_by_side import differences, overridden, prepared, traced

assert hub_form_patterns, "it adds patterns"

SEAMS = {
    "__init__": "nothing_set",
    "_apply_user_options_dict": "options_applied_by_a_dictionary",
    "_ensure_namespace": "namespaces_of_users",
    "_get_initialized_profile_list": "profiles_by_default",
    "_last_event": "a pod of that name is there",
    "_make_create_pod_request": "refused",
    "_make_delete_pod_request": "stopped while pending",
    "_options_from_form": "choices_by_form",
    "_render_options_form": "a_form_per_user",
    "_render_options_form_dynamically": "a_class_with_its_own_profiles",
    "_start": "runs",
    "_start_reflector": "pod deleted",
    "_start_watching_events": "runs",
    "_validate_user_options": "free_text_that_is_refused",
    "clear_state": "a_class_with_a_state",
    "delete_forever": "user deleted",
    "default:apply_user_options": "options_applied_by_a_function",
    "default:options_form": "profiles_by_form",
    "default:user_options": "nothing_set",
    "events": "runs",
    "get_options_form": "a_form_of_the_hub",
    "get_pod_manifest": "a_class_that_changes_manifests",
    "get_state": "a_class_with_a_state",
    "is_pod_running": "stopped while pending",
    "load_state": "hub restarted",
    "load_user_options": "a_class_with_more_fields",
    "poll": "evicted",
    "progress": "runs",
    "stop": "stopped while pending",
    "user_options": "a_form_of_the_hub",
}
"""What compares the two classes at each method, trait and default that DRASpawner replaces: a pattern, or an ending of a start.

A default is named ``default:TRAIT``.
"""
#: Seams that no call shows here: data, defaults, and the request for a namespace.
_NOT_CALLED = {name for name in SEAMS if name.startswith("default:")} | {"user_options", "_ensure_namespace"}


def test_each_seam_is_compared() -> None:
    assert set(overridden()) - set(SEAMS) == set(), "name a pattern or an ending that compares it"
    assert {name: case for name, case in SEAMS.items() if case not in {*PATTERNS, *ENDINGS, *ENDINGS_OF_THE_HUB}} == {}


# Its forms are others, and it takes wrong options.
@pytest.mark.skipif(kubespawner.version_info < (7, 1), reason="KubeSpawner 7.0 itself differs")
async def test_configurations_of_public_hubs(nowhere: HubSide, tmp_path: Path) -> None:
    sides = {base: HubSide(nowhere.kubeconfig, "jupyterhub", base) for base in (KubeSpawner, DRASpawner)}
    found = []
    for name, pattern in PATTERNS.items():
        if pattern.needs_cluster:
            continue
        called: set[str] = set()
        outcomes = [await prepared(side, pattern, traced(base, called), tmp_path) for base, side in sides.items()]
        found += [f"{name}: {each}" for each in differences(pattern.differs, *outcomes)]
        expected = {seam for seam, case in SEAMS.items() if case == name} & set(overridden()) - _NOT_CALLED
        found += [f"{name} does not compare {seam}, which is not called" for seam in sorted(expected - called)]
    assert found == [], "\n".join(found)
