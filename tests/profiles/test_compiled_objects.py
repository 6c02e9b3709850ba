"""Whatever the language accepts, the API server takes."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given, settings

from dra_spawner.devcluster.api import resource_types as types
from dra_spawner.devcluster.api.storage.store import Store
from dra_spawner.profiles import ProfileError, compile_device_claims, template_manifest
from tests.examples import example_count
from tests.profiles import strategies
from tests.profiles.accepted import ACCEPTED

NAMESPACE = "jupyterhub"
ADMIN_LABEL = {"resource.kubernetes.io/admin-access": "true"}


def create_all(plan):
    store = Store(lambda: datetime(2030, 1, 1, tzinfo=UTC))
    store.create(types.NAMESPACES, {"metadata": {"name": NAMESPACE, "labels": ADMIN_LABEL}})
    created = []
    for claim in plan.claims:
        if claim.spec is not None:
            manifest = template_manifest(claim, name=claim.name, namespace=NAMESPACE, labels={}, annotations={})
            created.append(store.create(types.RESOURCECLAIMTEMPLATES, manifest, NAMESPACE))
    return created


@settings(max_examples=example_count(100))
@given(strategies.device_claims)
def test_compiled_claims_pass_the_api_servers_validation(value):
    plan = compile_device_claims(value, admin_access=True)
    assert len(create_all(plan)) == len(value)
    if plan.fallback is not None:
        assert len(create_all(plan.fallback)) == len(plan.fallback.claims)
        assert plan.fallback.fallback is None


def test_accepted_claims_pass_validation():
    for case, value in ACCEPTED.items():
        plan = compile_device_claims(value)
        assert len(create_all(plan)) == len(plan.specs), case


@settings(max_examples=example_count(300))
@given(strategies.broken_device_claims())
def test_junk_is_refused_with_a_path_or_makes_no_difference(value):
    try:
        plan = compile_device_claims(value, admin_access=True)
    except ProfileError as error:
        broken = [problem for problem in error.problems if not problem.path.startswith("device_claims")]
    else:
        broken = []
        create_all(plan)
    assert broken == []
