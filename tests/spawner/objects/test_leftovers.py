"""Which templates a sweep touches."""

from datetime import UTC, datetime, timedelta

import pytest

from dra_spawner import names
from dra_spawner.spawner.objects.leftovers import Leftovers, find_leftovers

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
OLD = timedelta(minutes=6)


def template(name="t", age=timedelta(minutes=10), namespace="jupyterhub", **metadata):
    created = (NOW - age).isoformat().replace("+00:00", "Z")
    return {"metadata": {"name": name, "namespace": namespace, "creationTimestamp": created, **metadata}}


def pod(template_name, namespace="jupyterhub"):
    entry = {"name": "gpu", "resourceClaimTemplateName": template_name}
    return {"metadata": {"name": "p", "namespace": namespace, "uid": "u"}, "spec": {"resourceClaims": [entry]}}


def ends(later):
    return {names.START_ENDS: (NOW + later).isoformat()}


def of_start(nonce):
    return {
        "metadata": {"name": "p", "namespace": "jupyterhub", "uid": "u", "annotations": {names.START: nonce}},
        "spec": {},
    }


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
        pytest.param([template(annotations=ends(timedelta(minutes=1)))], [], Leftovers(), id="old, but its start says that it goes on"),
        pytest.param([template(age=timedelta(0), annotations=ends(-timedelta(minutes=1)))], [], Leftovers(delete=(("jupyterhub", "t"),)), id="young, but its start says that it is over"),
        pytest.param([template(annotations={names.START_ENDS: "soon"})], [], Leftovers(delete=(("jupyterhub", "t"),)), id="old, with junk for an end"),
        pytest.param([template(annotations={names.START: "n1"})], [of_start("n1")], Leftovers(adopt=(("jupyterhub", "t", "p", "u"),)), id="companion whose pod is there"),
        pytest.param([template(annotations={names.START: "n1"})], [of_start("n2")], Leftovers(delete=(("jupyterhub", "t"),)), id="companion of an earlier start"),
    ],
)  # fmt: skip
def test_leftovers(templates, pods, expected):
    assert find_leftovers(templates, pods, NOW, OLD) == expected
