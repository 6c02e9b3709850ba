"""Which templates a sweep touches."""

from datetime import UTC, datetime, timedelta

import pytest

from dra_spawner.cluster.leftovers import Leftovers, find_leftovers

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
OLD = timedelta(minutes=6)


def template(name="t", age=timedelta(minutes=10), namespace="jupyterhub", **metadata):
    created = (NOW - age).isoformat().replace("+00:00", "Z")
    return {"metadata": {"name": name, "namespace": namespace, "creationTimestamp": created, **metadata}}


def pod(template_name, namespace="jupyterhub"):
    entry = {"name": "gpu", "resourceClaimTemplateName": template_name}
    return {"metadata": {"name": "p", "namespace": namespace, "uid": "u"}, "spec": {"resourceClaims": [entry]}}


@pytest.mark.parametrize(
    ("templates", "pods", "expected"),
    [
        pytest.param([], [], Leftovers(), id="nothing"),
        pytest.param([template()], [], Leftovers(delete=(("jupyterhub", "t"),)), id="orphan"),
        pytest.param([template(age=timedelta(minutes=5))], [], Leftovers(), id="too young"),
        pytest.param([template(ownerReferences=[{"uid": "u"}])], [], Leftovers(), id="owned"),
        pytest.param([template()], [pod("t")], Leftovers(adopt=(("jupyterhub", "t", "p", "u"),)), id="in use"),
        pytest.param([template()], [pod("other")], Leftovers(delete=(("jupyterhub", "t"),)), id="pod of another"),
        pytest.param([template()], [pod("t", "else")], Leftovers(delete=(("jupyterhub", "t"),)), id="same name elsewhere"),
        pytest.param([template()], [{"metadata": {"namespace": "jupyterhub"}, "spec": {}}], Leftovers(delete=(("jupyterhub", "t"),)), id="pod without claims"),
    ],
)  # fmt: skip
def test_leftovers(templates, pods, expected):
    assert find_leftovers(templates, pods, NOW, OLD) == expected
