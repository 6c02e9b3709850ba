"""CapacityBuffers: the shapes that have one, its number, and the effect on placeholders."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dra_spawner import names
from dra_spawner.placeholders.planner.capacity_buffers import (
    BufferAction,
    DeleteBuffer,
    SetBuffer,
    SetTemplate,
    buffer_manifest,
    buffer_name,
    decide_buffers,
    template_manifest,
    without_buffered,
)
from dra_spawner.placeholders.planner.placeholder_objects import placeholder_pod
from dra_spawner.placeholders.planner.policy import Policy, ReplicaRange
from tests.placeholders.planner.objects import EXTENDED_RESOURCE, GPU, PLAIN
from tests.placeholders.planner.world import SETTINGS

Json = dict[str, Any]

EXTENDED = replace(PLAIN, id="e" * 16, containers=({"requests": {EXTENDED_RESOURCE: "1"}},))
NAME = buffer_name(PLAIN.id)
POLICY = Policy(
    shapes={each.id: each for each in (PLAIN, GPU, EXTENDED)},
    replicas={each.id: ReplicaRange(3, 10, 2) for each in (PLAIN, GPU, EXTENDED)},
)
TEMPLATE = template_manifest(PLAIN, SETTINGS)
NEW_TEMPLATE = SetTemplate(TEMPLATE, is_new=True)


def buffer(replicas: Any = 3, **spec: Any) -> Json:
    found = buffer_manifest(PLAIN.id, replicas, SETTINGS, "autoscaling.x-k8s.io/v1beta1")
    return {**found, "spec": {"provisioningStrategy": "buffer.gke.io/standby-capacity", **found["spec"], **spec}}


def decided(policy: Policy = POLICY, buffers: list[Json] | None = None, templates: list[Json] | None = None) -> Any:
    return decide_buffers(policy, SETTINGS, buffers or [], templates or [])


def test_only_shapes_without_devices_have_a_buffer() -> None:
    assert decided() == (NEW_TEMPLATE, SetBuffer(PLAIN.id, 3, is_new=True, reason="target 3, before 0"))


def test_an_up_to_date_buffer_is_not_written() -> None:
    """The administrator's strategy and limit are not written either."""
    assert decided(buffers=[buffer(limits={"cpu": "20"})], templates=[TEMPLATE]) == ()


def test_a_differing_buffer_is_written() -> None:
    rows: tuple[tuple[Json, int], ...] = (
        (buffer(7), 7),
        (buffer(podTemplateRef={"name": "x"}), 3),
        ({**buffer(), "spec": None}, 0),
        (buffer("3", podTemplateRef="x"), 3),
    )
    for present, before in rows:
        (action,) = decided(buffers=[present], templates=[TEMPLATE])
        assert action == SetBuffer(PLAIN.id, 3, is_new=False, reason=f"target 3, before {before}"), present


def test_a_template_of_other_settings_is_rewritten() -> None:
    before = template_manifest(PLAIN, replace(SETTINGS, priority_class="another"))
    assert decided(buffers=[buffer()], templates=[before]) == (SetTemplate(TEMPLATE, is_new=False),)
    without_annotations = {**TEMPLATE, "metadata": {"name": NAME}}
    assert decided(buffers=[buffer()], templates=[without_annotations]) == (SetTemplate(TEMPLATE, is_new=False),)


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(replace(POLICY, replicas={}), id="no target"),
        pytest.param(replace(POLICY, replicas={PLAIN.id: ReplicaRange(0, 10)}), id="a target of 0"),
        pytest.param(replace(POLICY, shapes={GPU.id: GPU}), id="no such shape any more"),
    ],
)
def test_without_a_target_buffer_and_template_go(policy: Policy) -> None:
    def deletions(actions: tuple[BufferAction, ...]) -> list[str]:
        return [each.name for each in actions if isinstance(each, DeleteBuffer)]

    assert deletions(decided(policy, [buffer()], [TEMPLATE])) == [NAME]
    assert deletions(decided(policy, [], [TEMPLATE])) == [NAME]
    assert deletions(decided(policy, [buffer()], [])) == [NAME]
    assert decided(replace(policy, is_complete=False), [buffer()], [TEMPLATE]) == ()


def test_the_template_is_a_placeholder_that_nothing_counts_as_one() -> None:
    pod = placeholder_pod(PLAIN, "anything", SETTINGS)
    assert TEMPLATE["template"]["spec"] == pod["spec"]
    assert TEMPLATE["metadata"]["labels"] == {names.MANAGED_BY: names.MANAGER, names.SHAPE: PLAIN.id}
    assert TEMPLATE["metadata"]["namespace"] == buffer()["metadata"]["namespace"] == SETTINGS.namespace
    assert buffer()["spec"]["podTemplateRef"] == {"name": TEMPLATE["metadata"]["name"]}


def test_shapes_with_a_buffer_have_placeholders_for_pending_servers_only() -> None:
    policy = without_buffered(POLICY, {PLAIN.id})
    assert policy.replicas == {**POLICY.replicas, PLAIN.id: ReplicaRange(0, 10, 0)}
    assert without_buffered(POLICY, ()) is POLICY
