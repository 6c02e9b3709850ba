"""The three kinds of patches, beyond those that `test_fidelity_of_bodies` compares with a real API server."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from dra_spawner.devcluster.api.patches import (
    PatchError,
    PatchType,
    apply_patch,
    json_patch,
    merge_patch,
    strategic_merge_patch,
)
from tests.all_of_them import all_of_them


# Examples of RFC 6902, appendix A, and results of Kubernetes' library for other cases.
@all_of_them(
    "document, operations, expected",
    [
        ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux"}], {"baz": "qux", "foo": "bar"}),
        ({"foo": ["bar"]}, [{"op": "add", "path": "/foo/0", "value": "qux"}], {"foo": ["qux", "bar"]}),
        ({"foo": ["bar"]}, [{"op": "add", "path": "/foo/-", "value": ["a"]}], {"foo": ["bar", ["a"]]}),
        ({"baz": "qux", "foo": "bar"}, [{"op": "remove", "path": "/baz"}], {"foo": "bar"}),
        ({"foo": ["a", "b", "c"]}, [{"op": "remove", "path": "/foo/1"}], {"foo": ["a", "c"]}),
        ({"baz": "qux"}, [{"op": "replace", "path": "/baz", "value": "boo"}], {"baz": "boo"}),
        ({"a": [1, 2]}, [{"op": "replace", "path": "/a/1", "value": 3}], {"a": [1, 3]}),
        ({}, [{"op": "replace", "path": "/new", "value": 1}], {"new": 1}),
        ({"a": {"b": 1}, "c": {}}, [{"op": "move", "from": "/a/b", "path": "/c/d"}], {"a": {}, "c": {"d": 1}}),
        ({"a": [1, 2, 3]}, [{"op": "move", "from": "/a/0", "path": "/a/2"}], {"a": [2, 3, 1]}),
        ({"a": {"b": [1]}}, [{"op": "copy", "from": "/a", "path": "/c"}], {"a": {"b": [1]}, "c": {"b": [1]}}),
        ({"a": {"~/": 1}}, [{"op": "test", "path": "/a/~0~1", "value": 1}], {"a": {"~/": 1}}),
        ({"a": 1}, [{"op": "test", "path": "/b", "value": None}], {"a": 1}),
        ({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 2}}], {"b": 2}),
        ({"a": 1}, [], {"a": 1}),
    ],
)
def test_json_patch(document: Any, operations: Any, expected: Any) -> None:
    before = copy.deepcopy(document)
    assert json_patch(document, operations) == expected
    assert document == before


@all_of_them(
    "operations, well_formed",
    {
        "test": ([{"op": "test", "path": "/a", "value": 2}], True),
        "test-bool": ([{"op": "test", "path": "/a", "value": True}], True),
        "remove": ([{"op": "remove", "path": "/zz"}], True),
        "no-parent": ([{"op": "add", "path": "/zz/b", "value": 1}], True),
        "index": ([{"op": "add", "path": "/l/9", "value": 1}], True),
        "leading-zero": ([{"op": "add", "path": "/l/01", "value": 1}], True),
        "scalar": ([{"op": "add", "path": "/a/b", "value": 1}], True),
        "move": ([{"op": "move", "from": "/zz", "path": "/a"}], True),
        "unknown": ([{"op": "zap", "path": "/a"}], True),
        "no-value": ([{"op": "add", "path": "/a"}], False),
        "no-pointer": ([{"op": "add", "path": "a", "value": 1}], False),
        "no-list": ({"op": "remove", "path": "/a"}, False),
    },
)
def test_json_patches_that_fail(operations: Any, well_formed: bool) -> None:
    with pytest.raises(PatchError) as failure:
        json_patch({"a": 1, "l": [1]}, operations)
    assert failure.value.well_formed is well_formed


# RFC 7386, appendix A
@all_of_them(
    "document, patch, expected",
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "foo"}, None, None),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch(document: Any, patch: Any, expected: Any) -> None:
    before = copy.deepcopy(document)
    assert merge_patch(document, patch) == expected
    assert document == before


@all_of_them(
    "kind, document, patch, expected",
    {
        "conditions": (
            "Pod",
            {"status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "Other", "status": "True"}]}},
            {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
            {"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "True"}]}},
        ),
        "owners": (
            "Pod",
            {"metadata": {"ownerReferences": [{"uid": "1", "name": "a"}]}},
            {"metadata": {"ownerReferences": [{"uid": "2", "name": "b"}]}},
            {"metadata": {"ownerReferences": [{"uid": "2", "name": "b"}, {"uid": "1", "name": "a"}]}},
        ),
        "namespace-finalizers-are-replaced": (
            "Namespace",
            {"spec": {"finalizers": ["a"]}},
            {"spec": {"finalizers": ["b"]}},
            {"spec": {"finalizers": ["b"]}},
        ),
        "service-ports": (
            "Service",
            {"spec": {"ports": [{"port": 80, "name": "a"}]}},
            {"spec": {"ports": [{"port": 80, "name": "b"}]}},
            {"spec": {"ports": [{"port": 80, "name": "b"}]}},
        ),
        "requests-are-replaced": (
            "ResourceClaim",
            {"spec": {"devices": {"requests": [{"name": "a"}, {"name": "b"}]}}},
            {"spec": {"devices": {"requests": [{"name": "a", "exactly": {}}]}}},
            {"spec": {"devices": {"requests": [{"name": "a", "exactly": {}}]}}},
        ),
        "device-conditions-are-replaced": (
            "ResourceClaim",
            {"status": {"devices": [{"conditions": [{"type": "a"}]}]}},
            {"status": {"devices": [{"conditions": [{"type": "b"}]}]}},
            {"status": {"devices": [{"conditions": [{"type": "b"}]}]}},
        ),
    },
)
def test_strategic_merge_patch(kind: str, document: Any, patch: Any, expected: Any) -> None:
    before = copy.deepcopy(document)
    assert strategic_merge_patch(document, patch, kind) == expected
    assert document == before


def test_an_unknown_directive_is_refused() -> None:
    with pytest.raises(PatchError):
        strategic_merge_patch({"spec": {"containers": []}}, {"spec": {"$patch": "explode"}}, "Pod")


@pytest.mark.parametrize("patch_type", [PatchType.MERGE, PatchType.STRATEGIC_MERGE], ids=str)
@pytest.mark.parametrize("body", [[], "x", 1, None], ids=str)
def test_patches_are_objects(patch_type: PatchType, body: Any) -> None:
    with pytest.raises(PatchError, match="cannot unmarshal"):
        apply_patch({"kind": "Pod"}, body, patch_type)
