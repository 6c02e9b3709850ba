"""Which templates a sweep touches."""

from datetime import UTC, datetime, timedelta

from dra_spawner import names
from dra_spawner.spawner.objects.leftovers import Leftovers, find_leftovers
from tests.all_of_them import all_of_them

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


@all_of_them(
    "templates, pods, expected",
    {
        "nothing": ([], [], Leftovers()),
        "orphan": ([template()], [], Leftovers(delete=(("jupyterhub", "t"),))),
        "too young": ([template(age=timedelta(minutes=5))], [], Leftovers()),
        "owned": ([template(ownerReferences=[{"uid": "u"}])], [], Leftovers()),
        "in use": ([template()], [pod("t")], Leftovers(adopt=(("jupyterhub", "t", "p", "u"),))),
        "pod of another": ([template()], [pod("other")], Leftovers(delete=(("jupyterhub", "t"),))),
        "same name elsewhere": ([template()], [pod("t", "else")], Leftovers(delete=(("jupyterhub", "t"),))),
        "pod without claims": ([template()], [{"metadata": {"namespace": "jupyterhub"}, "spec": {}}], Leftovers(delete=(("jupyterhub", "t"),))),
        "old, but its start says that it goes on": ([template(annotations=ends(timedelta(minutes=1)))], [], Leftovers()),
        "young, but its start says that it is over": ([template(age=timedelta(0), annotations=ends(-timedelta(minutes=1)))], [], Leftovers(delete=(("jupyterhub", "t"),))),
        "old, with junk for an end": ([template(annotations={names.START_ENDS: "soon"})], [], Leftovers(delete=(("jupyterhub", "t"),))),
        "companion whose pod is there": ([template(annotations={names.START: "n1"})], [of_start("n1")], Leftovers(adopt=(("jupyterhub", "t", "p", "u"),))),
        "companion of an earlier start": ([template(annotations={names.START: "n1"})], [of_start("n2")], Leftovers(delete=(("jupyterhub", "t"),))),
    },
)  # fmt: skip
def test_leftovers(templates, pods, expected):
    assert find_leftovers(templates, pods, NOW, OLD) == expected
