"""Bodies and patches that the embedded API server and a real one must take, refuse and complete alike."""

from __future__ import annotations

from typing import Any

from tests.cluster.fixtures import newest_only

from . import fidelity_cases as cases
from .fidelity import CLAIMS, CONFIGMAPS, DEPLOYMENTS, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Side, config_map

pytestmark = newest_only


async def test_bodies(shared_sides: tuple[Side, Side]) -> None:
    accepted = set()
    for name, (resource_type, body, _) in cases.BODIES.items():
        for side in shared_sides:
            answer = await side.send("POST", f"{resource_type.path('default')}?dryRun=All", body)
            side.note(name, (answer.status, answer.body))
            if answer.status < 300:
                accepted.add(name)
    assert accepted == {name for name, (*_, is_accepted) in cases.BODIES.items() if is_accepted}


async def test_claim_status(sides: tuple[Side, Side]) -> None:
    result = {"request": "a", "driver": "d.example.com", "pool": "p", "device": "d0"}
    allocated = {"status": {"allocation": {"devices": {"results": [result]}}}}
    # Of no kind that the claim controller knows, or it would remove it at once.
    consumer = {"apiGroup": "example.com", "resource": "things", "name": "p", "uid": "1"}
    bad_results = [{**result, "request": "q"}, {**result, "driver": ""}, {**result, "pool": "A"}]
    bad_results += [{**result, "device": "_"}, {**result, "shareID": "X"}]
    for side in sides:
        await side.ask(
            "POST", CLAIMS, {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [cases.request()]}}}
        )
        path = f"{CLAIMS}/c/status"
        await side.ask("PATCH", f"{CLAIMS}/c", allocated, content_type=MERGE_PATCH)
        await side.ask("PATCH", path, {"status": {"reservedFor": [consumer]}}, content_type=MERGE_PATCH)
        for bad in bad_results:
            body = {"status": {"allocation": {"devices": {"results": [bad]}}}}
            await side.ask("PATCH", path, body, content_type=MERGE_PATCH)
        await side.ask("PATCH", path, {"metadata": {"labels": {"a": "b"}}, **allocated}, content_type=MERGE_PATCH)
        changed = {"status": {"allocation": {"devices": {"results": [{**result, "device": "d1"}]}}}}
        await side.ask("PATCH", path, changed, content_type=MERGE_PATCH, only="status")
        reserved = {"status": {"reservedFor": [consumer]}}
        await side.ask("PATCH", path, reserved, content_type=STRATEGIC_PATCH)
        other = {"status": {"reservedFor": [{**consumer, "uid": "2"}]}}
        await side.ask("PATCH", path, other, content_type=STRATEGIC_PATCH)
        device = {"driver": "d.example.com", "pool": "p", "device": "d0", "data": {"a": 1}}
        await side.ask("PATCH", path, {"status": {"devices": [device]}}, content_type=MERGE_PATCH)
        stranger = {"status": {"devices": [{**device, "device": "d7"}]}}
        answer = await side.send("PATCH", path, stranger, content_type=MERGE_PATCH)
        side.note("stranger", (answer.status, answer.body["details"]["causes"][0]["field"]))
        count = {"spec": {"devices": {"requests": [cases.request(count=2)]}}}
        answer = await side.send("PATCH", f"{CLAIMS}/c", count, content_type=MERGE_PATCH)
        side.note("immutable", (answer.status, answer.body["details"]["causes"][0]["field"]))


_DATA_PATCHES: tuple[tuple[str, Any], ...] = (
    (JSON_PATCH, [{"op": "add", "path": "/data/b", "value": "2"}, {"op": "test", "path": "/data/a", "value": "1"}]),
    (JSON_PATCH, [{"op": "add", "path": "/metadata/labels", "value": {"a~b": "c", "x/y": "z"}}]),
    (JSON_PATCH, [{"op": "add", "path": "/metadata/labels", "value": {"x/y": "z"}}]),
    (JSON_PATCH, [{"op": "replace", "path": "/metadata/labels/x~1y", "value": "w"}]),
    (JSON_PATCH, [{"op": "move", "from": "/data/b", "path": "/data/c"}]),
    (JSON_PATCH, [{"op": "copy", "from": "/data/c", "path": "/data/d"}]),
    (JSON_PATCH, [{"op": "remove", "path": "/data/c"}]),
    (JSON_PATCH, [{"op": "test", "path": "/data/zz", "value": None}]),
    (JSON_PATCH, [{"op": "test", "path": "/data/a", "value": "2"}]),
    (JSON_PATCH, [{"op": "remove", "path": "/data/zz"}]),
    (JSON_PATCH, [{"op": "replace", "path": "/data/zz", "value": "1"}]),
    (JSON_PATCH, [{"op": "replace", "path": "/data/x/y", "value": "1"}]),
    (JSON_PATCH, [{"op": "zap", "path": "/data/a"}]),
    (JSON_PATCH, {"op": "remove", "path": "/data/a"}),
    (JSON_PATCH, [{"op": "add", "path": "/data/n", "value": 1}]),
    (JSON_PATCH, []),
    (MERGE_PATCH, {"data": {"a": None, "m": "1"}}),
    (MERGE_PATCH, {"metadata": {"resourceVersion": "1"}}),
    (MERGE_PATCH, {"metadata": {"name": "other"}}),
    (MERGE_PATCH, {"data": {"m": 5}}),
    (MERGE_PATCH, []),
    (STRATEGIC_PATCH, {"data": {"$patch": "replace", "r": "1"}}),
    (STRATEGIC_PATCH, {"metadata": {"finalizers": ["a.io/b"]}}),
    (STRATEGIC_PATCH, {"metadata": {"finalizers": ["a.io/c"]}}),
    (STRATEGIC_PATCH, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.io/b", "a.io/c"]}}),
    (STRATEGIC_PATCH, {"data": {"$patch": "delete"}}),
    ("application/unknown", {}),
)


async def test_patches(sides: tuple[Side, Side]) -> None:
    for side in sides:
        await side.ask("POST", CONFIGMAPS, config_map("a", {"a": "1"}))
        for content_type, body in _DATA_PATCHES:
            answer = await side.send("PATCH", f"{CONFIGMAPS}/a", body, content_type=content_type)
            if answer.status < 300:
                compared = {key: answer.body.get(key) for key in ("metadata", "data")}
            else:  # of patches that do not apply the real one does not say why
                compared = answer.body.get("reason")
            side.note(f"{content_type} {body}", (answer.status, compared))


_TEMPLATE = {
    "containers": [
        {
            "name": "a",
            "image": "i:1",
            "env": [{"name": "x", "value": "1"}, {"name": "y", "value": "2"}],
            "ports": [{"containerPort": 80, "name": "web"}],
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            "args": ["1", "2"],
        },
        {"name": "b", "image": "i:2"},
    ],
    "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "configMap": {"name": "c"}}],
    "tolerations": [{"key": "t", "operator": "Exists"}],
    "resourceClaims": [{"name": "c", "resourceClaimName": "x"}],
    "imagePullSecrets": [{"name": "s"}],
    "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}],
}
_TEMPLATE_PATCHES: tuple[dict[str, Any], ...] = (
    {"containers": [{"name": "a", "image": "j"}]},
    {"containers": [{"name": "n", "image": "k"}]},
    {"containers": [{"name": "b", "$patch": "delete"}]},
    {"containers": [{"name": "a", "env": [{"name": "y", "value": "3"}, {"name": "z", "value": "4"}]}]},
    {"containers": [{"name": "a", "env": [{"name": "x", "$patch": "delete"}]}]},
    {"containers": [{"name": "a", "ports": [{"containerPort": 81}]}]},
    {"containers": [{"name": "a", "volumeMounts": [{"name": "w", "mountPath": "/w"}]}]},
    {"containers": [{"name": "a", "args": ["3"]}]},
    {"containers": [{"$patch": "replace"}, {"name": "q", "image": "i:3"}]},
    {"containers": [{"image": "nameless"}]},
    {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "a", "image": "o"}]},
    {"volumes": [{"name": "v", "$retainKeys": ["name", "nfs"], "nfs": {"server": "s", "path": "/h"}}]},
    {"volumes": [{"name": "u", "emptyDir": {}}]},
    {"tolerations": [{"key": "u", "operator": "Exists"}]},
    {"resourceClaims": [{"name": "d", "resourceClaimName": "y"}]},
    {
        "resourceClaims": [
            {"name": "c", "$retainKeys": ["name", "resourceClaimTemplateName"], "resourceClaimTemplateName": "t"}
        ]
    },
    {"imagePullSecrets": [{"name": "r"}]},
    {"hostAliases": [{"ip": "10.0.0.1", "hostnames": ["b"]}]},
    {"nodeSelector": {"a": "b"}, "tolerations": None},
)


async def test_strategic_merge_of_pod_templates(sides: tuple[Side, Side]) -> None:
    labels = {"a": "b"}
    deployment = {
        "metadata": {"name": "d"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": _TEMPLATE},
        },
    }
    for side in sides:
        await side.ask("POST", DEPLOYMENTS, deployment, only="spec.template.spec")
        for patch in _TEMPLATE_PATCHES:
            body = {"spec": {"template": {"spec": patch}}}
            answer = await side.send("PATCH", f"{DEPLOYMENTS}/d?dryRun=All", body, content_type=STRATEGIC_PATCH)
            # A deployment's pods are validated on the real one only.
            template = answer.body["spec"]["template"]["spec"] if answer.status == 200 else "refused"
            side.note(str(patch), template)
