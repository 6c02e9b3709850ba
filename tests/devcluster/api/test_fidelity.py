"""The embedded API server against a real kube-apiserver: the same requests, the same answers."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import quote

from tests.cluster.fixtures import newest_only

from . import fidelity_cases as cases
from .fidelity import CLAIMS, CONFIGMAPS, MERGE_PATCH, PODS, RESOURCE, STRATEGIC_PATCH, Side, config_map, pod
from .make_schema import SCHEMA_FILE, make_schema, write

pytestmark = newest_only
_RULES = "resource.k8s.io/v1/DeviceTaintRule"


async def test_schema_is_that_of_the_api_server(shared_sides: tuple[Side, Side]) -> None:
    embedded, real = shared_sides
    openapi = (await real.send("GET", "/openapi/v2")).body
    made = make_schema(openapi)
    if _RULES not in made["kinds"]:  # as before Kubernetes 1.37
        known = json.loads(SCHEMA_FILE.read_text())
        made["kinds"] = dict(sorted({**made["kinds"], _RULES: known["kinds"][_RULES]}.items()))
        own = {name: known["structures"][name] for name in known["structures"] if name not in made["structures"]}
        made["structures"] = dict(sorted({**made["structures"], **own}.items()))
    assert write(made) == SCHEMA_FILE.read_text(), "run python -m tests.devcluster.api.make_schema"
    for side in (embedded, real):
        await side.ask("GET", "/healthz")


async def test_objects(sides: tuple[Side, Side]) -> None:
    for side in sides:
        await side.ask("POST", CONFIGMAPS, config_map("a", {"k": "v"}))
        await side.ask("POST", CONFIGMAPS, config_map("a"))
        await side.ask("POST", "/api/v1/namespaces/nowhere/configmaps", config_map("a"))
        await side.ask("POST", CONFIGMAPS, {"data": {}})
        await side.ask("POST", CONFIGMAPS, config_map("A_b"))
        await side.ask("POST", CONFIGMAPS, config_map("b", resourceVersion="3"))
        await side.ask("POST", CONFIGMAPS, config_map("b", namespace="default"))
        await side.ask("POST", CONFIGMAPS, config_map("b", {"a b": "c"}))
        await side.ask("POST", CONFIGMAPS, {"metadata": {"name": 5}})
        await side.ask("POST", CONFIGMAPS, {"metadata": {"name": "b"}, "dat": {}})
        await side.ask("POST", f"{CONFIGMAPS}?fieldValidation=Strict", {"metadata": {"name": "c", "x": 1}, "dat": {}})
        await side.ask("GET", f"{CONFIGMAPS}/none")
        await side.ask("PUT", f"{CONFIGMAPS}/none", config_map("none"))
        await side.ask("PUT", f"{CONFIGMAPS}/a", config_map("other"))
        current = await side.ask("GET", f"{CONFIGMAPS}/a")
        changed = {**current, "data": {"k": "w"}}
        await side.ask("PUT", f"{CONFIGMAPS}/a", changed)
        await side.ask("PUT", f"{CONFIGMAPS}/a", {**changed, "data": {"k": "x"}})
        await side.ask("PUT", f"{CONFIGMAPS}/a", config_map("a", {"unconditional": "yes"}))
        await side.ask("PUT", f"{CONFIGMAPS}/a", config_map("a", uid="wrong"))
        await side.ask("PUT", f"{CONFIGMAPS}/a?dryRun=All", config_map("a", {"dry": "run"}))
        await side.ask("PUT", f"{CONFIGMAPS}/a?dryRun=Some", config_map("a", {"dry": "run"}))
        await side.ask("DELETE", f"{CONFIGMAPS}/a?dryRun=All")
        await side.ask("GET", f"{CONFIGMAPS}/a")
        await side.ask("POST", f"{CONFIGMAPS}/a", config_map("a"))
        await side.ask("PUT", CONFIGMAPS, config_map("a"))
        await side.ask("GET", "/api/v1/namespaces/{ns}/nosuchkind")
        for preconditions in ({"uid": "wrong"}, {"resourceVersion": "1"}):
            await side.ask("DELETE", f"{CONFIGMAPS}/a", {"preconditions": preconditions})
            await side.ask("DELETE", f"{CLAIMS}/none", {"preconditions": preconditions})
        await side.ask("DELETE", f"{CONFIGMAPS}/a?propagationPolicy=Sometimes")
        await side.ask("DELETE", f"{CONFIGMAPS}/a")
        await side.ask("DELETE", f"{CONFIGMAPS}/a")
        await side.ask("POST", "/api/v1/namespaces/{ns}/secrets", {"metadata": {"name": "s"}, "stringData": {"a": "b"}})
        await side.ask("POST", "/api/v1/namespaces/{ns}/secrets", {"metadata": {"name": "t"}, "data": {"a": "b"}})
        claim = {"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
        claim["spec"]["resources"] = {"requests": {"storage": "1024Mi"}}  # type: ignore[index]
        await side.ask("POST", "/api/v1/namespaces/{ns}/persistentvolumeclaims?dryRun=All", claim, only="spec")


async def test_updates_that_change_nothing(sides: tuple[Side, Side]) -> None:
    for side in sides:
        created = await side.ask("POST", CONFIGMAPS, config_map("a", {"k": "v"}))
        version = created["metadata"]["resourceVersion"]
        same = await side.ask("PATCH", f"{CONFIGMAPS}/a", {"data": {"k": "v"}}, content_type=MERGE_PATCH)
        side.note("same version", same["metadata"]["resourceVersion"] == version)
        same = await side.ask("PUT", f"{CONFIGMAPS}/a", created)
        side.note("same version", same["metadata"]["resourceVersion"] == version)


async def test_generated_names(sides: tuple[Side, Side]) -> None:
    for side in sides:
        await side.ask("POST", CONFIGMAPS, {"metadata": {"generateName": "abc-"}})
        long = await side.ask("POST", CONFIGMAPS, {"metadata": {"generateName": "a" * 80}})
        side.note("length", len(long["metadata"]["name"]))
        await side.ask("POST", CONFIGMAPS, {"metadata": {"generateName": "A_"}}, only="reason")


async def test_pod_life(sides: tuple[Side, Side]) -> None:
    for side in sides:
        created = await side.ask("POST", PODS, {**pod("a", {"labels": {"x": "y"}}), "status": {"phase": "Running"}})
        await side.ask("PUT", f"{PODS}/a", {**created, "status": {"phase": "Failed"}})
        await side.ask("PATCH", f"{PODS}/a", {"spec": {"nodeName": "n"}}, content_type=STRATEGIC_PATCH)
        image = {"spec": {"containers": [{"name": "c", "image": "i:2"}]}}
        await side.ask("PATCH", f"{PODS}/a", image, content_type=STRATEGIC_PATCH)
        status = {
            "status": {"phase": "Running"},
            "metadata": {"labels": {"z": "1"}, "ownerReferences": []},
            "spec": {"nodeName": "u"},
        }
        await side.ask("PATCH", f"{PODS}/a/status", status, content_type=STRATEGIC_PATCH)
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"name": "n1"}}
        await side.ask("POST", f"{PODS}/none/binding", binding)
        await side.ask("POST", f"{PODS}/a/binding", binding)
        await side.ask("POST", f"{PODS}/a/binding", binding)
        await side.ask("GET", f"{PODS}/a")
        await side.ask("GET", f"{PODS}/a/log?container=none")
        await side.ask("DELETE", f"{PODS}/a")
        await side.ask("DELETE", f"{PODS}/a")
        await side.ask("DELETE", f"{PODS}/a?gracePeriodSeconds=60")
        await side.ask("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 5})
        await side.ask("POST", f"{PODS}/a/binding", binding)
        await side.ask("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0})
        await side.ask("DELETE", f"{PODS}/a")
        await side.ask("POST", PODS, pod("b"))
        await side.ask("POST", f"{PODS}/b/eviction", {"metadata": {}})
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "b"}}
        await side.ask("POST", f"{PODS}/b/eviction", eviction)
        await side.ask("GET", f"{PODS}/b")
        await side.ask("POST", PODS, pod("c", schedulingGates=[{"name": "g"}]))
        await side.ask("POST", f"{PODS}/c/binding", {**binding, "metadata": {"name": "c"}})
        selected = {"spec": {"nodeSelector": {"a": "b"}}}
        await side.ask("PATCH", f"{PODS}/c", selected, content_type=MERGE_PATCH)
        await side.ask("PATCH", f"{PODS}/c", {"spec": {"schedulingGates": None}}, content_type=MERGE_PATCH)


async def test_lists(sides: tuple[Side, Side]) -> None:
    labels: tuple[dict[str, str], ...] = (
        {"app": "a", "tier": "1"},
        {"app": "b", "tier": "2"},
        {"app": "a", "tier": "2"},
    )
    labels += ({"tier": ""}, {"x.io/k": "v", "in": "in"}, {})
    for side in sides:
        for index, each in enumerate(labels):
            await side.send("POST", PODS, pod(f"p{index}", {"labels": each}))
        for text in cases.LABEL_SELECTORS:
            await _ask_names(side, f"{PODS}?labelSelector={quote(text)}")
        for text in cases.FIELD_SELECTORS:
            await _ask_names(side, f"{PODS}?fieldSelector={quote(text.replace('{ns}', side.namespace))}")
        await side.ask("GET", f"{CONFIGMAPS}?fieldSelector=spec.x%3Dy")
        for query in ("resourceVersion=0", "resourceVersion=0&resourceVersionMatch=NotOlderThan", "limit=0"):
            await _ask_names(side, f"{PODS}?{query}")
        for query in (
            "resourceVersion=abc",
            "resourceVersionMatch=Exact",
            "resourceVersionMatch=Exact&resourceVersion=0",
            "resourceVersionMatch=Foo&resourceVersion=1",
            "limit=many",
        ):
            await side.ask("GET", f"{PODS}?{query}")
        await _ask_pages(side, "limit=4")
        await _ask_pages(side, "limit=2&labelSelector=app%3Da")
        await side.ask("DELETE", f"{PODS}?labelSelector=app%3Da", only="kind")
        await _ask_names(side, PODS)


async def _ask_names(side: Side, path: str) -> None:
    answer = await side.send("GET", path)
    if answer.status == 200:
        assert int(answer.body["metadata"]["resourceVersion"]) > 0
        names = [item["metadata"]["name"] for item in answer.body["items"]]
        # A field of a list item that is not of the list: neither has apiVersion or kind.
        side.note(path, (answer.body["kind"], names, [sorted(item) for item in answer.body["items"]]))
    else:
        side.note(path, (answer.status, answer.body))


async def _ask_pages(side: Side, query: str) -> None:
    path = f"{PODS}?{query}"
    token = ""
    # With a selector the real one may say that something follows although nothing does.
    paged = "Selector" not in query
    found: list[str] = []
    while True:
        page = (await side.send("GET", path + token)).body
        names = [item["metadata"]["name"] for item in page["items"]]
        found += names
        if paged:
            side.note(query, (names, page["metadata"].get("remainingItemCount"), "continue" in page["metadata"]))
        if "continue" not in page["metadata"]:
            side.note(query, found)
            return
        token = f"&continue={quote(page['metadata']['continue'])}"


async def test_watches(sides: tuple[Side, Side]) -> None:
    for side in sides:
        start = (await side.send("GET", CONFIGMAPS)).body["metadata"]["resourceVersion"]
        await side.send("POST", CONFIGMAPS, config_map("a", {"n": "1"}, labels={"app": "x"}))
        await side.send("POST", CONFIGMAPS, config_map("b", finalizers=["a.io/b"]))
        await side.send("PATCH", f"{CONFIGMAPS}/a", {"data": {"n": "2"}}, content_type=MERGE_PATCH)
        middle = (await side.send("GET", CONFIGMAPS)).body["metadata"]["resourceVersion"]
        await side.send("PATCH", f"{CONFIGMAPS}/a", {"metadata": {"labels": {"app": "y"}}}, content_type=MERGE_PATCH)
        await side.send("PATCH", f"{CONFIGMAPS}/a", {"data": {"n": "3"}}, content_type=MERGE_PATCH)
        await side.send("DELETE", f"{CONFIGMAPS}/b")
        await side.send("PATCH", f"{CONFIGMAPS}/b", {"metadata": {"finalizers": None}}, content_type=MERGE_PATCH)
        await side.send("PATCH", f"{CONFIGMAPS}/a", {"metadata": {"labels": {"app": "x"}}}, content_type=MERGE_PATCH)
        own = "fieldSelector=metadata.name%21%3Dkube-root-ca.crt"
        await side.ask_watches(
            CONFIGMAPS,
            f"resourceVersion={start}&{own}",
            f"resourceVersion={middle}&{own}",
            f"resourceVersion={start}&labelSelector=app%3Dx",
            f"resourceVersion={start}&labelSelector=app%21%3Dx&{own}",
            f"resourceVersion={start}&fieldSelector=metadata.name%3Db",
            own,
            f"resourceVersion=0&{own}&allowWatchBookmarks=true",
            f"resourceVersion={start}&fieldSelector=nonsense%3D1",
        )
        await side.send("DELETE", f"{CONFIGMAPS}/a")
        one = f"fieldSelector=metadata.name%3Da,metadata.namespace%3D{side.namespace}"
        await side.ask_watches("/api/v1/configmaps", f"resourceVersion={middle}&{one}")


async def test_pod_watch(sides: tuple[Side, Side]) -> None:
    for side in sides:
        start = (await side.send("GET", PODS)).body["metadata"]["resourceVersion"]
        await side.send("POST", PODS, pod("a"))
        await side.send("POST", PODS, pod("b"))
        await side.send("POST", f"{PODS}/a/binding", {"metadata": {"name": "a"}, "target": {"name": "n1"}})
        await side.send("DELETE", f"{PODS}/a")
        await side.send("DELETE", f"{PODS}/a?gracePeriodSeconds=0")
        await side.send("DELETE", f"{PODS}/b")
        bound = f"resourceVersion={start}&fieldSelector=spec.nodeName%3Dn1"
        await side.ask_watches(PODS, f"resourceVersion={start}", bound)


async def test_garbage_collection(sides: tuple[Side, Side]) -> None:
    async def script(side: Side) -> None:
        async def own(owner: str, *dependents: str, **reference: Any) -> None:
            created = (await side.send("POST", CONFIGMAPS, config_map(owner))).body
            uid = created["metadata"]["uid"]
            owners = [{"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid, **reference}]
            for name in dependents:
                await side.send("POST", CONFIGMAPS, config_map(name, ownerReferences=owners))

        await own("back", "back-1", "back-2")
        await side.ask("DELETE", f"{CONFIGMAPS}/back")
        for name in ("back-1", "back-2"):
            await side.wait_status(f"{CONFIGMAPS}/{name}", 404)
        await own("front", "front-1", blockOwnerDeletion=True)
        await side.send("DELETE", f"{CONFIGMAPS}/front?propagationPolicy=Foreground")
        await side.wait_status(f"{CONFIGMAPS}/front", 404)
        await side.ask("GET", f"{CONFIGMAPS}/front-1")
        await own("orphan", "orphan-1")
        await side.send("DELETE", f"{CONFIGMAPS}/orphan?propagationPolicy=Orphan")
        await side.wait_status(f"{CONFIGMAPS}/orphan", 404)
        await side.ask("GET", f"{CONFIGMAPS}/orphan-1")
        stranger = {"apiVersion": "v1", "kind": "ConfigMap", "name": "never", "uid": "never"}
        await side.ask("POST", CONFIGMAPS, config_map("lost", ownerReferences=[stranger]))
        await side.wait_status(f"{CONFIGMAPS}/lost", 404)

    await asyncio.gather(*map(script, sides))


async def test_finalizers(sides: tuple[Side, Side]) -> None:
    for side in sides:
        await side.ask(
            "POST", CLAIMS, {"metadata": {"name": "c", "finalizers": ["a.io/b"]}, "spec": {}}, only="metadata"
        )
        await side.ask("DELETE", f"{CLAIMS}/c", only="metadata")
        await side.ask("DELETE", f"{CLAIMS}/c", only="metadata")
        more = {"metadata": {"finalizers": ["a.io/b", "a.io/c"]}}
        await side.ask("PATCH", f"{CLAIMS}/c", more, content_type=MERGE_PATCH)
        await side.ask("POST", CLAIMS, {"metadata": {"name": "c"}, "spec": {}})
        done = {"metadata": {"finalizers": None}}
        await side.ask("PATCH", f"{CLAIMS}/c", done, content_type=MERGE_PATCH, only="metadata")
        await side.ask("GET", f"{CLAIMS}/c")
        await side.ask("POST", PODS, pod("p", {"finalizers": ["a.io/b"]}), only="metadata")
        await side.ask("DELETE", f"{PODS}/p?gracePeriodSeconds=0", only="metadata")
        await side.ask("PATCH", f"{PODS}/p", done, content_type=MERGE_PATCH, only="metadata")
        await side.ask("GET", f"{PODS}/p")


async def test_namespaces(sides: tuple[Side, Side]) -> None:
    name = "{ns}-b"

    async def script(side: Side) -> None:
        path = f"/api/v1/namespaces/{name}"
        await side.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "a.b"}})
        await side.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        await side.send("POST", f"{path}/configmaps", config_map("a", finalizers=["a.io/b"]))
        await side.ask("DELETE", path)
        await side.ask("POST", f"{path}/configmaps", config_map("b"))
        await side.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        # The namespace controller marks the object some time later.
        await side.wait_for(f"{path}/configmaps/a", lambda answer: answer.body["metadata"].get("deletionTimestamp"))
        await side.send("PATCH", f"{path}/configmaps/a", {"metadata": {"finalizers": None}}, content_type=MERGE_PATCH)
        await side.wait_status(path, 404)
        for initial in ("default", "kube-system"):
            await side.ask("DELETE", f"/api/v1/namespaces/{initial}")

    await asyncio.gather(*map(script, sides))


async def test_discovery(shared_sides: tuple[Side, Side]) -> None:
    embedded, real = shared_sides
    for path in ("/api/v1", "/apis/resource.k8s.io/v1", "/apis/policy/v1", "/apis/coordination.k8s.io/v1"):
        ours = (await embedded.send("GET", path)).body
        version = (await real.send("GET", "/version")).body
        if int(version["minor"].rstrip("+")) < 37:
            ours["resources"] = [each for each in ours["resources"] if not each["name"].startswith("devicetaintrules")]
        names = {entry["name"] for entry in ours["resources"]}
        theirs = (await real.send("GET", path)).body
        theirs["resources"] = [entry for entry in theirs["resources"] if entry["name"] in names]
        theirs.pop("apiVersion", None)  # of the oldest group the real one does not say it
        ours.pop("apiVersion")
        embedded.note(path, ours)
        real.note(path, theirs)


async def test_table_columns(shared_sides: tuple[Side, Side]) -> None:
    for path in (PODS, CLAIMS, CONFIGMAPS, "/api/v1/nodes", f"{RESOURCE}/resourceslices"):
        for side in shared_sides:
            answer = await side.send("GET", path, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
            side.note(path, [(each["name"], each["priority"]) for each in answer.body["columnDefinitions"]])


async def test_access_reviews(shared_sides: tuple[Side, Side]) -> None:
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    for side in shared_sides:
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        answer = await side.send("POST", path, review)
        side.note("allowed", (answer.status, answer.body["status"]["allowed"]))
