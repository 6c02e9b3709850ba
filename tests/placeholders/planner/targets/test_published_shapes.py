"""Shapes that the hub publishes, and targets by name."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dra_spawner.placeholders.planner.targets.choice_names import choice_name, find_choice, is_combination, options_of
from dra_spawner.placeholders.planner.targets.policy import Policy, ReplicaRange
from dra_spawner.placeholders.planner.targets.published_shapes import (
    PublishedShapes,
    RefusedChoice,
    policy_with,
    published_config_map,
    publisher_of,
    read_config_map,
    within_bounds,
)
from dra_spawner.placeholders.planner.targets.shapes import Shape
from tests.examples import example_count
from tests.placeholders.planner.nonsense_shapes import NONSENSE, node_terms
from tests.placeholders.planner.objects import GPU, PLAIN, SHARE, user_shape
from tests.placeholders.planner.world import World

NAMES = ("gpu", "gpu/memory=large", "gpu/image=a,b", "gpu/memory=large,image=torch", "gpu/memory=large,image=a,b")


def test_options_come_in_any_order() -> None:
    expected = {
        "gpu": "gpu",
        "gpu/memory=large": "gpu/memory=large",
        "gpu/image=torch,memory=large": "gpu/memory=large,image=torch",
        "gpu/image=a,b": "gpu/image=a,b",
        "gpu/image=a,b,memory=large": "gpu/memory=large,image=a,b",
        "gpu/memory=large,image=other": None,
        "tpu/memory=large": None,
        "gpu/": "gpu",
        "": None,
    }
    assert {name: find_choice(name, NAMES) for name in expected} == expected


def test_default_options_may_be_spelt_out() -> None:
    expected = {
        "gpu/memory=small": "gpu",
        "gpu/memory=small,image=torch": "gpu/image=torch",
        "gpu/image=torch,memory=large": "gpu/memory=large,image=torch",
        "gpu/image=a,b,memory=small": "gpu/image=a,b",
        "gpu/memory=huge": None,
        "gpu/other=small": None,
        "tpu/memory=small": None,
    }
    shapes = dict.fromkeys(("gpu", "gpu/memory=large", "gpu/image=torch", "gpu/image=a,b", NAMES[3]), GPU)
    published = PublishedShapes(shapes, defaults={"gpu": {"memory": "small", "image": "plain"}})
    for each in (published, read_config_map(published_config_map(published, "hub", {}))):
        assert {name: each.find(name) for name in expected} == expected


def test_the_limit_of_a_start_is_published() -> None:
    written = published_config_map(PublishedShapes({"gpu": GPU}, start_seconds=300), "hub", {})
    assert read_config_map(written).start_seconds == 300
    wrongs: tuple[object, ...] = (0, -1, "300", True, 10**9, None, [], 1.5)
    for wrong in wrongs:
        content = {**json.loads(written["data"]["shapes.json"]), "start_seconds": wrong}
        found = read_config_map({**written, "data": {"shapes.json": json.dumps(content)}})
        assert (found.start_seconds, found.problem, list(found.shapes)) == (0, "", ["gpu"]), wrong


def test_a_hub_of_an_older_version_publishes_no_defaults() -> None:
    written = published_config_map(PublishedShapes({"gpu": GPU}), "hub", {})
    content = json.loads(written["data"]["shapes.json"])
    del content["defaults"]
    written["data"]["shapes.json"] = json.dumps(content)
    found = read_config_map(written)
    assert (found.find("gpu"), found.find("gpu/memory=small"), found.problem) == ("gpu", None, "")


def test_names() -> None:
    names: dict[str, dict[str, str]] = {
        "gpu": {},
        "gpu/memory=large": {"memory": "large"},
        "gpu/image=a,b": {"image": "a,b"},
        "gpu/memory=large,image=torch": {"memory": "large", "image": "torch"},
    }
    assert {choice_name("gpu", options): options for options in names.values()} == names
    assert {name: options_of(name) for name in names} == names
    assert [name for name in names if is_combination(name)] == ["gpu/memory=large,image=torch"]


def test_a_combination_has_placeholders_of_its_own() -> None:
    published = PublishedShapes({"gpu": GPU, "gpu/a=1,b=2": SHARE, "cpu": PLAIN})
    policy, problems = policy_with(Policy(), published, {"gpu": ReplicaRange(1, 2), "gpu/b=2,a=1": ReplicaRange(3, 4)})
    assert problems == []
    assert policy.replicas == {GPU.id: ReplicaRange(1, 2), SHARE.id: ReplicaRange(3, 4)}


def test_placeholders_of_an_omitted_combination_are_reported() -> None:
    published = PublishedShapes({"gpu": GPU, "cpu": PLAIN, "cpu/a=1,b=2": PLAIN}, {"gpu/*": "400 are too many"})
    _, problems = policy_with(Policy(), published, {"gpu/b=2,a=1": ReplicaRange(1, 2), "cpu/c=3": ReplicaRange(1, 1)})
    assert problems == [
        "placeholders of gpu/b=2,a=1: this choice is left out: 400 are too many",
        "placeholders of cpu/c=3: there is no such choice; there are: cpu, gpu and 1 combinations of several options."
        " Did you mean cpu?",
    ]


def test_a_shape_that_many_choices_have_is_written_once() -> None:
    many = {f"gpu/a={number},b=1": replace(GPU, images=frozenset({f"image:{number}"})) for number in range(200)}
    published = PublishedShapes({"gpu": GPU, **many})
    written = published_config_map(published, "hub", {}, publisher="me")
    assert len(json.loads(written["data"]["shapes.json"])["shapes"]) == 1
    assert read_config_map(written) == published == within_bounds(published)
    assert publisher_of(written) == "me"


def test_combinations_that_exceed_the_size_of_an_object_are_left_out() -> None:
    """The combinations of the largest profile are left out."""
    large = {
        f"{slug}/a={number},b=1": user_shape(nodeSelector={"pool": "x" * 20_000, "number": f"{slug}{number}"})
        for slug, count in (("big", 40), ("small", 10))
        for number in range(count)
    }
    found = within_bounds(PublishedShapes({"big": GPU, "small": PLAIN, **large}))
    assert [name for name in found.shapes if name.startswith("big")] == ["big"]
    assert len([name for name in found.shapes if name.startswith("small/")]) == 10
    assert list(found.skipped) == ["big/*"]
    assert found.skipped["big/*"].startswith("40 combinations of several options are too many")


@pytest.mark.parametrize("bad", NONSENSE.values(), ids=NONSENSE.keys())
def test_a_shape_that_makes_no_sense_is_left_out_and_the_others_are_kept(bad: Shape) -> None:
    published = read_config_map(published_config_map(PublishedShapes({"good": PLAIN, "bad": bad}), "hub", {}))
    assert not published.problem
    assert list(published.shapes) == ["good"]
    assert published.skipped["bad"].startswith("its published shape is invalid: ")
    policy, problems = policy_with(Policy(), published, {"good": ReplicaRange(1, 2), "bad": ReplicaRange(1, 2)})
    assert problems == [f"placeholders of bad: this choice is left out: {published.skipped['bad']}"]
    world = World(policy)
    world.node("a", gpus=1)
    world.settle()
    assert len(world.warm(PLAIN)) == 1


@pytest.mark.parametrize("choice", [None, {}, {"shape": []}, {"shape": "other", "images": []}, {"shape": GPU.id}])
def test_a_choice_that_makes_no_sense_is_left_out(choice: Any) -> None:
    written = published_config_map(PublishedShapes({"good": GPU}), "hub", {})
    content = json.loads(written["data"]["shapes.json"])
    content["choices"]["bad"] = choice
    published = read_config_map({**written, "data": {"shapes.json": json.dumps(content)}})
    assert published.shapes == {"good": GPU}
    assert published.skipped == {"bad": "its published entry is invalid"}


def paths_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """All paths in a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, each in inner for found in paths_in(each, (*path, key)))]


def with_other(value: Any, path: tuple[Any, ...], other: Any) -> Any:
    if not path:
        return other
    if isinstance(value, dict):
        return {**value, path[0]: with_other(value[path[0]], path[1:], other)}
    return [*value[: path[0]], with_other(value[path[0]], path[1:], other), *value[path[0] + 1 :]]


RICH = user_shape(
    {"gpu": SHARE.claims["gpu"], "other": GPU.claims["gpu"]},
    nodeSelector={"pool": "a"},
    tolerations=[{"key": "b", "operator": "Exists", "effect": "NoSchedule"}],
    **node_terms(key="zone", operator="In", values=["x"]),
)
WRITTEN = published_config_map(PublishedShapes({"good": PLAIN, "rich": RICH}), "hub", {})
CONTENT = json.loads(WRITTEN["data"]["shapes.json"])
EXAMPLES = 150
OTHERS: tuple[object, ...] = (
    None, True, 0, -1, 1.5, 2**70, "", "x", "-1", "1e999", "\x00", [], [None], {}, {"x": None}, {"": "x"},
)  # fmt: skip


@given(st.sampled_from(paths_in(CONTENT["shapes"][RICH.id])[1:]), st.sampled_from(OTHERS))
@settings(max_examples=example_count(EXAMPLES))
def test_valid_shapes_are_kept_whatever_else_a_hub_publishes(path: tuple[Any, ...], other: Any) -> None:
    """Any value is put at one path of a shape: the shape is left out or valid, and no round fails."""
    shapes = {**CONTENT["shapes"], RICH.id: with_other(CONTENT["shapes"][RICH.id], path, other)}
    written = {**WRITTEN, "data": {"shapes.json": json.dumps({**CONTENT, "shapes": shapes})}}
    policy, _ = policy_with(
        Policy(), read_config_map(written), {"good": ReplicaRange(1, 2), "rich": ReplicaRange(1, 2)}
    )
    world = World(policy)
    world.node("a", gpus=2, memory="40Gi", labels={"pool": "a", "zone": "x"})
    world.settle()
    assert len(world.warm(PLAIN)) == 1


def test_choices_that_cannot_work_are_told_and_hostile_ones_left_out() -> None:
    refused = {"huge": RefusedChoice("profile huge.count", "no node has 9")}
    written = published_config_map(PublishedShapes({"good": PLAIN}, refused=refused), "hub", {})
    assert read_config_map(written).refused == refused
    content = json.loads(written["data"]["shapes.json"])
    many = {f"c{number}": {"path": "p", "message": "m" * 10**4} for number in range(500)}
    others: tuple[Any, ...] = (None, [], "x", 3, {"a": None}, {"a": {"path": "p"}}, {"a": []}, many)
    for other in others:
        found = read_config_map({**written, "data": {"shapes.json": json.dumps({**content, "refused": other})}})
        assert (set(found.shapes), found.problem) == ({"good"}, "")
        assert len(found.refused) <= 200
        assert all(len(each.message) <= 600 for each in found.refused.values())


def test_titles_of_choices_are_text_whatever_a_hub_publishes() -> None:
    written = published_config_map(PublishedShapes({"good": PLAIN}, titles={"good": "GPU slice, 10 GiB"}), "hub", {})
    assert read_config_map(written).titles == {"good": "GPU slice, 10 GiB"}
    content = json.loads(written["data"]["shapes.json"])
    others: tuple[Any, ...] = (
        None,
        [],
        "x",
        3,
        {"a": None},
        {"a": ["b"]},
        {f"c{n}": "m" * 10**4 for n in range(5_000)},
    )
    for other in others:
        found = read_config_map({**written, "data": {"shapes.json": json.dumps({**content, "titles": other})}})
        assert (set(found.shapes), found.problem) == ({"good"}, "")
        assert len(found.titles) <= 500
        assert all(len(each) <= 150 for each in found.titles.values())
    assert read_config_map(
        {**written, "data": {"shapes.json": json.dumps({**content, "titles": {"good": "a\u202eb"}})}}
    ).titles == {"good": "ab"}
