"""The store against a plain dict: after any requests both agree, and so do watches."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from dra_spawner.devcluster.api.errors import ApiError
from dra_spawner.devcluster.api.http.encoding import to_json
from dra_spawner.devcluster.api.http.watches import Watch
from dra_spawner.devcluster.api.json_values import mutable_copy
from dra_spawner.devcluster.api.resource_types import CONFIGMAPS, NAMESPACES
from dra_spawner.devcluster.api.selectors import object_filter
from dra_spawner.devcluster.api.storage.changes import WatchEvent, WatchEventType
from dra_spawner.devcluster.api.storage.store import Store
from tests.examples import example_count

NAMES = st.sampled_from(["a", "b", "c", "d"])
NAMESPACE_NAMES = st.sampled_from(["default", "other"])
LABELS = st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["x", "y"]), max_size=2)
FINALIZERS = st.lists(st.sampled_from(["a.io/1", "a.io/2"]), unique=True, max_size=2)
SELECTORS = ("app=x", "app!=x", "tier", "!tier,app in (x,y)")

Key = tuple[str, str]


class StoreMachine(RuleBasedStateMachine):
    """Random requests; the model holds labels, data, finalizers, owner and whether the object is being deleted."""

    versions = Bundle("versions")

    def __init__(self) -> None:
        super().__init__()
        self.store = Store(lambda: datetime(2030, 1, 1, tzinfo=UTC), random=Random(1), history_limit=1000)
        self.store.create(NAMESPACES, {"metadata": {"name": "other"}})
        self.model: dict[Key, dict[str, Any]] = {}
        self.events: list[WatchEvent] = []
        self.start = int(self.store.resource_version)
        self.store.subscribe(self.events.append)
        self.watches = {text: Watch(None, object_filter(CONFIGMAPS, text), to_json, 0) for text in SELECTORS}
        for watch in self.watches.values():
            self.store.subscribe(watch.add_change)
        self.watched: dict[str, dict[Key, Any]] = {text: {} for text in SELECTORS}

    # --- the model -------------------------------------------------------------------------------------

    def _delete(self, key: Key) -> None:
        entry = self.model[key]
        if entry["finalizers"]:
            entry["deleting"] = True
            return
        del self.model[key]
        self._collect()

    def _collect(self) -> None:
        """Delete objects that have owners and none of them left."""
        uids = {entry["uid"] for entry in self.model.values()}
        for key, entry in list(self.model.items()):
            lost = entry["owner"] is not None and entry["owner"] not in uids and not entry["deleting"]
            if lost and key in self.model:
                self._delete(key)

    # --- requests --------------------------------------------------------------------------------------

    @rule(
        target=versions,
        namespace=NAMESPACE_NAMES,
        name=NAMES,
        labels=LABELS,
        finalizers=FINALIZERS,
        owner=st.one_of(st.none(), NAMES),
    )
    def create(self, namespace: str, name: str, labels: Any, finalizers: Any, owner: str | None) -> Any:
        metadata: dict[str, Any] = {"name": name, "labels": labels, "finalizers": finalizers}
        owner_uid = None
        if owner is not None and (namespace, owner) in self.model:
            owner_uid = self.model[namespace, owner]["uid"]
            reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": owner_uid}
            metadata["ownerReferences"] = [reference]
        key = (namespace, name)
        if key in self.model:
            with pytest.raises(ApiError, match="already exists"):
                self.store.create(CONFIGMAPS, {"metadata": metadata}, namespace)
            return multiple()
        created = self.store.create(CONFIGMAPS, {"metadata": metadata, "data": {}}, namespace)
        self.model[key] = {
            "uid": created["metadata"]["uid"],
            "labels": labels,
            "data": {},
            "finalizers": list(finalizers),
            "owner": owner_uid,
            "deleting": False,
        }
        return created

    @rule(target=versions, seen=versions, value=st.sampled_from(["1", "2"]))
    def update(self, seen: Any, value: str) -> Any:
        metadata = seen["metadata"]
        key = (metadata["namespace"], metadata["name"])
        wanted = mutable_copy(seen)
        wanted["data"] = {"k": value}
        current = self.store.find(CONFIGMAPS, *key)
        if current is None:
            with pytest.raises(ApiError, match="not found"):
                self.store.update(CONFIGMAPS, wanted)
            return multiple()
        if current["metadata"]["resourceVersion"] != metadata["resourceVersion"]:
            with pytest.raises(ApiError) as refusal:
                self.store.update(CONFIGMAPS, wanted)
            assert refusal.value.reason == "Conflict"
            return multiple()
        self.model[key]["data"] = {"k": value}
        return self.store.update(CONFIGMAPS, wanted)

    @rule(namespace=NAMESPACE_NAMES, name=NAMES, labels=LABELS)
    def relabel(self, namespace: str, name: str, labels: Any) -> None:
        if (namespace, name) not in self.model:
            with pytest.raises(ApiError, match="not found"):
                self.store.patch(CONFIGMAPS, namespace, name, {})
            return
        body = [{"op": "add", "path": "/metadata/labels", "value": labels}]
        self.store.patch(CONFIGMAPS, namespace, name, body, "application/json-patch+json")
        self.model[namespace, name]["labels"] = labels

    @rule(namespace=NAMESPACE_NAMES, name=NAMES, finalizer=st.sampled_from(["a.io/1", "a.io/2"]))
    def finish(self, namespace: str, name: str, finalizer: str) -> None:
        """Take a finalizer away."""
        entry = self.model.get((namespace, name))
        if entry is None or finalizer not in entry["finalizers"]:
            return
        body = {"metadata": {"$deleteFromPrimitiveList/finalizers": [finalizer]}}
        self.store.patch(CONFIGMAPS, namespace, name, body)
        entry["finalizers"].remove(finalizer)
        if entry["deleting"]:
            self._delete((namespace, name))

    @rule(namespace=NAMESPACE_NAMES, name=NAMES)
    def delete(self, namespace: str, name: str) -> None:
        if (namespace, name) not in self.model:
            with pytest.raises(ApiError, match="not found"):
                self.store.delete(CONFIGMAPS, namespace, name)
            return
        removed = self.store.delete(CONFIGMAPS, namespace, name).removed
        assert removed is not bool(self.model[namespace, name]["finalizers"])
        self._delete((namespace, name))

    @rule(seen=consumes(versions))
    def tamper(self, seen: Any) -> None:
        """Changes of returned objects do not change the store."""
        with pytest.raises(TypeError):
            seen["metadata"]["labels"] = {}
        with pytest.raises(TypeError):
            seen.update({})

    # --- invariants ------------------------------------------------------------------------------------

    @invariant()
    def lists_agree(self) -> None:
        listed = self.store.list(CONFIGMAPS).items
        assert [_key(obj) for obj in listed] == sorted(self.model)
        for obj in listed:
            entry = self.model[_key(obj)]
            metadata = obj["metadata"]
            assert metadata.get("labels", {}) == entry["labels"]
            assert metadata.get("finalizers", []) == entry["finalizers"]
            assert obj.get("data", {}) == entry["data"]
            assert ("deletionTimestamp" in metadata) is entry["deleting"]
        for text in SELECTORS:
            selected = object_filter(CONFIGMAPS, text)
            assert selected is not None
            assert self.store.list(CONFIGMAPS, label_selector=text).items == [obj for obj in listed if selected(obj)]

    @invariant()
    def pages_make_the_list(self) -> None:
        keys, after = [], None
        while True:
            page = self.store.list(CONFIGMAPS, limit=2, after=after)
            keys += [_key(obj) for obj in page.items]
            if page.next_key is None:
                break
            after = page.next_key
            assert page.remaining == len(self.model) - len(keys)
        assert keys == sorted(self.model)

    @invariant()
    def replayed_events_make_the_list(self) -> None:
        state: dict[Key, Any] = {}
        for event in self.events:
            key = _key(event.object)
            assert (event.type is WatchEventType.ADDED) is (key not in state)
            assert event.previous == state.get(key)
            assert event.object["metadata"]["resourceVersion"] == str(event.revision)
            if event.type is WatchEventType.DELETED:
                del state[key]
            else:
                state[key] = event.object
        assert all(left.revision < right.revision for left, right in pairwise(self.events))
        assert state == {_key(obj): obj for obj in self.store.list(CONFIGMAPS).items}

    @invariant()
    def history_lists_all_events(self) -> None:
        for skipped in {0, len(self.events) // 2, len(self.events)}:
            since = self.events[skipped - 1].revision if skipped else self.start
            assert list(self.store.events_since(CONFIGMAPS, since)) == self.events[skipped:]

    @invariant()
    def selective_watches_make_the_selected_list(self) -> None:
        for text, watch in self.watches.items():
            state = self.watched[text]
            for line in watch.collected().splitlines():
                event = json.loads(line)
                key = _key(event["object"])
                assert (event["type"] == "ADDED") is (key not in state)
                state[key] = event["object"]
                if event["type"] == "DELETED":
                    del state[key]
            assert state == {_key(obj): obj for obj in self.store.list(CONFIGMAPS, label_selector=text).items}


def _key(obj: Any) -> Key:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(max_examples=example_count(60), stateful_step_count=30)
