"""Finds what stands in the way of expected users, and what an answer depends on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from dra_spawner.dra.reasons import RefusalKind
from dra_spawner.placeholders.planner.readiness import image_name, images_on
from dra_spawner.placeholders.planner.scale_up_estimate import device_classes
from dra_spawner.rehearsal.capacity import Capacity, NewNodes
from dra_spawner.rehearsal.quotas import QuotaRoom, not_judged
from dra_spawner.rehearsal.rehearsal_problems import ProblemCode, RehearsalProblem
from dra_spawner.rehearsal.rehearsal_result import NodeOrder
from dra_spawner.rehearsal.situation import Situation
from dra_spawner.rehearsal.timetable import Waits
from dra_spawner.rehearsal.wording import clock, nodes_of

__all__ = ["limit_obstacles", "node_obstacles", "notes", "time_obstacles"]

_MOST_NAMED: Final = 3
#: Images that a node lists at most (``nodeStatusMaxImages``); it may have more.
_MOST_LISTED: Final = 50
_DESCRIBE: Final = "describe the kinds of nodes (node_kinds of the service, --nodes of the command)"


def node_obstacles(situation: Situation, capacity: Capacity) -> Iterator[RehearsalProblem]:
    """Why some users get no node, whatever is ordered."""
    lacking, profile = capacity.lacking, situation.expected.profile
    if not lacking:
        return
    full = [each for each in capacity.new if each.are_all]
    unknown = [each.supply.name for each in capacity.new if not each.supply.is_known]
    if missing := _missing_classes(situation):
        yield RehearsalProblem(
            ProblemCode.DEVICE_CLASS_MISSING,
            f"the cluster has no DeviceClass {', '.join(missing)}, which claims of {profile} name; install its driver",
            f"the cluster does not know the devices of {profile}",
            lacking,
        )
    elif unknown:
        kinds = ", ".join(unknown)
        yield RehearsalProblem(
            ProblemCode.NOT_KNOWN,
            f"no node of {kinds} is there or remembered, so it is not known how many servers of {profile} fit; "
            f"{_DESCRIBE}",
            f"no node of {kinds} is there now, so it is not known what runs there",
            lacking,
        )
    elif full:
        for each in full:
            kind, most, present = each.supply.name, each.supply.most or 0, len(each.supply.nodes)
            yield RehearsalProblem(
                ProblemCode.MOST_NODES,
                f"there may be {nodes_of(most, kind)} and {present} are there, so {lacking} users lack a node; "
                "raise the maximum of the node group",
                f"there may be {nodes_of(most, kind)}, and more are needed",
                lacking,
            )
    elif any(each.servers for each in capacity.new):
        yield RehearsalProblem(
            ProblemCode.NO_NODE_KIND,
            f"further nodes take no server of {profile}: {capacity.refusal}",
            f"further nodes can run no server of {profile}",
            lacking,
        )
    else:
        yield _no_kind(situation, capacity)


def _no_kind(situation: Situation, capacity: Capacity) -> RehearsalProblem:
    new, profile = capacity.new, situation.expected.profile
    reasons = [f"{each.supply.name}: {each.refusal}" for each in new[:_MOST_NAMED]]
    if len(new) > _MOST_NAMED:
        reasons.append(f"and {len(new) - _MOST_NAMED} more kinds")
    if _is_about_selectors(new):
        return RehearsalProblem(
            ProblemCode.NO_DEVICE_SELECTED,
            f"claims of {profile} select no device of any node: {'; '.join(reasons)}",
            f"no device of the cluster is what {profile} asks for",
            capacity.lacking,
        )
    if not situation.settings.kinds_are_all:
        told = "; ".join(reasons) or "no node is there or remembered"
        return RehearsalProblem(
            ProblemCode.NOT_KNOWN,
            f"no kind of node that is known can run a server of {profile}: {told}. If nodes of another kind can come, "
            f"{_DESCRIBE}",
            f"no node is known that can run a server of {profile}",
            capacity.lacking,
        )
    told = "; ".join(reasons) or f"no node can be added, and present nodes refuse: {capacity.refusal}"
    are_full = not new and capacity.present
    return RehearsalProblem(
        ProblemCode.NO_NODE_KIND,
        f"no kind of node can run a server of {profile}: {told}",
        "no node can be added, and the present ones are full" if are_full else f"no node can run a server of {profile}",
        capacity.lacking,
    )


def _is_about_selectors(new: Sequence[NewNodes]) -> bool:
    """Whether devices are there, and none is selected."""
    kinds = {each.refusal_kind for each in new}
    return RefusalKind.SELECTOR in kinds and kinds <= {RefusalKind.SELECTOR, RefusalKind.NO_DEVICES}


def _missing_classes(situation: Situation) -> list[str]:
    wanted = {name for spec in situation.expected.shape.claims.values() for name in device_classes(spec)}
    return sorted(wanted - set(situation.view.snapshot.classes))


def limit_obstacles(
    situation: Situation, by_limit: int, by_quota: int, rooms: Sequence[QuotaRoom]
) -> Iterator[RehearsalProblem]:
    """Limits that allow fewer servers than are wanted.

    Parameters
    ----------
    by_limit, by_quota
        Users who can start by the limit of placeholders, and by quotas.
    """
    wanted, profile = situation.wanted, situation.expected.profile
    if by_quota < wanted:
        room = min(rooms, key=lambda each: each.servers)
        yield RehearsalProblem(
            ProblemCode.QUOTA,
            f"ResourceQuota {room.quota} of namespace {situation.namespace} has {room.resource} for {room.servers} "
            f"more servers of {profile}, and {situation.to_place} are needed",
            f"a limit of the cluster allows {room.servers} more servers",
            wanted - by_quota,
        )
    if by_limit < wanted:
        most = situation.settings.most_placeholders
        yield RehearsalProblem(
            ProblemCode.PLACEHOLDER_LIMIT,
            f"max of placeholders of {profile} is {most}, and {wanted} are needed",
            f"at most {most} servers are prepared in advance",
            wanted - by_limit,
        )


def time_obstacles(situation: Situation, orders: Sequence[NodeOrder], planned: Waits) -> Iterator[RehearsalProblem]:
    """Why some users wait although all is ordered now."""
    late = planned.users - planned.without_end
    if not late:
        return
    useful = {max(each.useful(situation.now)): each for each in orders}
    if not useful or max(useful) <= situation.begins:
        yield RehearsalProblem(
            ProblemCode.TOO_LATE,
            "present nodes lack the images, and pull them until after the begin",
            "the nodes are not ready in time",
            late,
        )
        return
    last, order = max(useful), useful[max(useful)]
    when, kind = clock(order.order_at, situation), order.supply.name
    if order.is_on_order:
        yield RehearsalProblem(
            ProblemCode.TOO_LATE,
            f"nodes of {kind} were ordered at {when}; the last is useful at {clock(last, situation)}",
            f"the nodes that were ordered at {when} come later",
            late,
        )
    else:
        yield RehearsalProblem(
            ProblemCode.TOO_LATE,
            f"nodes of {kind} had to be ordered at {when}; ordered now, the last is useful at {clock(last, situation)}",
            f"the nodes had to be ordered at {when}, and now it is {clock(situation.now, situation)}",
            late,
        )


def notes(situation: Situation, capacity: Capacity) -> Iterator[RehearsalProblem]:
    """What the answer depends on, without being in the way."""
    if images := _missing_images(situation, capacity):
        named = ", ".join(images[:_MOST_NAMED])
        more = f" and {len(images) - _MOST_NAMED} more" if len(images) > _MOST_NAMED else ""
        yield _note(
            ProblemCode.IMAGE_MISSING,
            f"no node has image {named}{more}: check that it exists; its first pull takes a while",
            situation.wanted,
        )
    for each in capacity.new:
        yield from _notes_of_kind(situation, each)
    if situation.settings.quotas is None:
        yield _note(ProblemCode.NOT_KNOWN, f"ResourceQuotas of namespace {situation.namespace} are not judged")
    for quota in situation.settings.quotas or ():
        if unknown := not_judged(quota):
            yield _note(ProblemCode.NOT_KNOWN, f"ResourceQuota {quota.name} limits {', '.join(unknown)}: not judged")


def _notes_of_kind(situation: Situation, new: NewNodes) -> Iterator[RehearsalProblem]:
    supply, slots = new.supply, new.slots
    if slots and new.last_seen is not None:
        at = new.last_seen.astimezone(situation.expected.begins.tzinfo)
        yield _note(
            ProblemCode.NOT_KNOWN,
            f"new nodes of {supply.name} are taken to be like {new.like}, which was last seen at {at:%Y-%m-%d %H:%M}",
            new.servers,
        )
    if slots and not new.like:
        yield _note(
            ProblemCode.NOT_KNOWN,
            f"no node of {supply.name} is present: {supply.slots} servers on each are as described, not proved",
            new.servers,
        )
    elif supply.slots and len(slots) > 1 and slots[0] != supply.slots:
        yield _note(
            ProblemCode.NOT_KNOWN,
            f"a new node of {supply.name} runs {slots[0]} servers; the description says {supply.slots}",
        )
    if slots and not supply.lead_is_known:
        yield _note(
            ProblemCode.NOT_KNOWN,
            f"no lead time of {supply.name} was seen: {supply.lead.total_seconds() / 60:g} minutes are assumed",
        )


def _missing_images(situation: Situation, capacity: Capacity) -> list[str]:
    """Images of the shape that no node lists, and none of those that new ones are like."""
    wanted = set(map(image_name, situation.expected.shape.images))
    for each in (past for new in capacity.new for past in new.supply.past):
        wanted -= set(map(image_name, each.template.node.images))
    for state in situation.view.snapshot.nodes.values():
        if not wanted or len(state.node.images) >= _MOST_LISTED:
            return []
        wanted -= images_on(situation.view, state)
    return sorted(wanted)


def _note(code: ProblemCode, message: str, users: int = 0) -> RehearsalProblem:
    return RehearsalProblem(code, message, users=users, blocks=False)
