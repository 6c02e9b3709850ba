"""Problems that keep expected users from starting, and notes on assumptions of the answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from dra_spawner.common.counted_text import listed
from dra_spawner.dra.allocation.reasons import RefusalKind
from dra_spawner.placeholders.planner.decisions.readiness import image_name, images_on
from dra_spawner.placeholders.planner.targets.shapes import device_classes
from dra_spawner.scale_ahead.rehearsal.capacity import Capacity
from dra_spawner.scale_ahead.rehearsal.nodes.closed_capacity import drained_until_then
from dra_spawner.scale_ahead.rehearsal.nodes.new_nodes import NewNodes
from dra_spawner.scale_ahead.rehearsal.ordering import NewServers
from dra_spawner.scale_ahead.rehearsal.quotas import QuotaCapacity, unchecked_resources
from dra_spawner.scale_ahead.rehearsal.rehearsal_problems import ProblemCode, RehearsalProblem
from dra_spawner.scale_ahead.rehearsal.rehearsal_result import NodeOrder
from dra_spawner.scale_ahead.rehearsal.situation import RehearsalSituation
from dra_spawner.scale_ahead.rehearsal.verdict_text import clock, nodes_of

_MAX_NAMED: Final = 3
#: Limit of the images that a node lists (``nodeStatusMaxImages``); it may have more.
_MAX_LISTED: Final = 50
_DESCRIBE: Final = "describe the kinds of nodes (node_kinds of the service, --nodes of the command)"


def closed_obstacles(situation: RehearsalSituation, capacity: Capacity, late: int) -> Iterator[RehearsalProblem]:
    """Closed nodes or devices for want of which users get no node, or wait for one.

    Parameters
    ----------
    late
        Number of users who wait although all nodes are ordered now.
    """
    closed, settings = capacity.closed, situation.settings
    # Without an autoscaler, no other node is certain to come.
    without = capacity.lacking if settings.has_autoscaler else situation.to_place - capacity.present
    if not closed.servers or not (without or late):
        return
    zone = situation.expected.begins.tzinfo
    plain = closed.plain({name: each.astimezone(zone) for name, each in settings.back_at.items()})
    yield RehearsalProblem(
        ProblemCode.DRAINED,
        f"servers of {situation.expected.profile} fit where no new one starts: {closed.clause()}; {closed.remedy()}, "
        "or let more nodes come",
        plain if without else f"{plain}, and others are not ready in time",
        without or late,
    )


def node_obstacles(situation: RehearsalSituation, capacity: Capacity) -> Iterator[RehearsalProblem]:
    """Why some users get no node, even if all possible nodes are ordered."""
    lacking, profile = capacity.lacking, situation.expected.profile
    if not lacking:
        return
    full = [each for each in capacity.new if each.is_at_limit]
    unknown = [each.supply.name for each in capacity.new if not each.supply.is_known]
    if missing := _missing_classes(situation):
        yield RehearsalProblem(
            ProblemCode.DEVICE_CLASS_MISSING,
            f"the cluster has no DeviceClass {', '.join(missing)}, which claims of {profile} name; install its driver",
            "the cluster has no devices for this choice",
            lacking,
        )
    elif unknown:
        kinds = ", ".join(unknown)
        yield RehearsalProblem(
            ProblemCode.NOT_KNOWN,
            f"no node of {kinds} is present or remembered, so the number of servers of {profile} on it is unknown; "
            f"{_DESCRIBE}",
            f"no node of {kinds} is present, so its capacity is unknown",
            lacking,
        )
    elif full:
        for each in full:
            kind, most, present = each.supply.name, each.supply.max_nodes or 0, len(each.supply.nodes)
            yield RehearsalProblem(
                ProblemCode.MAX_NODES,
                f"the maximum is {nodes_of(most, kind)}, and {present} are present, so {lacking} users get no node; "
                "raise the maximum of the node group",
                f"the maximum is {nodes_of(most, kind)}, and more are needed",
                lacking,
            )
    elif any(each.servers for each in capacity.new):
        yield RehearsalProblem(
            ProblemCode.NO_NODE_KIND,
            f"no server of {profile} fits on further nodes: {capacity.refusal}",
            "further nodes can run no server of this choice",
            lacking,
        )
    else:
        yield _no_kind(situation, capacity)


def _no_kind(situation: RehearsalSituation, capacity: Capacity) -> RehearsalProblem:
    new, profile = capacity.new, situation.expected.profile
    reasons = [f"{each.supply.name}: {each.refusal}" for each in new[:_MAX_NAMED]]
    if len(new) > _MAX_NAMED:
        reasons.append(f"and {len(new) - _MAX_NAMED} more kinds")
    if _is_about_selectors(new):
        return RehearsalProblem(
            ProblemCode.NO_DEVICE_SELECTED,
            f"claims of {profile} select no device of any node: {'; '.join(reasons)}",
            "no device of the cluster fits this choice",
            capacity.lacking,
        )
    if not situation.settings.kinds_are_all:
        why = "; ".join(reasons) or "no node is present or remembered"
        return RehearsalProblem(
            ProblemCode.NOT_KNOWN,
            f"no known kind of node can run a server of {profile}: {why}. If nodes of another kind can come, "
            f"{_DESCRIBE}",
            "no known node can run a server of this choice",
            capacity.lacking,
        )
    why = "; ".join(reasons) or f"no node can be added, and on present nodes: {capacity.refusal}"
    are_full = not new and capacity.present
    return RehearsalProblem(
        ProblemCode.NO_NODE_KIND,
        f"no kind of node can run a server of {profile}: {why}",
        "no node can be added, and the present ones are full"
        if are_full
        else "no node can run a server of this choice",
        capacity.lacking,
    )


def _is_about_selectors(new: Sequence[NewNodes]) -> bool:
    """Whether there are devices, but no selector selects any."""
    kinds = {each.refusal_kind for each in new}
    return RefusalKind.SELECTOR in kinds and kinds <= {RefusalKind.SELECTOR, RefusalKind.NO_DEVICES}


def _missing_classes(situation: RehearsalSituation) -> list[str]:
    wanted = {name for spec in situation.expected.shape.claims.values() for name in device_classes(spec)}
    return sorted(wanted - set(situation.view.snapshot.classes))


def quota_obstacles(
    situation: RehearsalSituation, by_quota: int, quotas: Sequence[QuotaCapacity]
) -> Iterator[RehearsalProblem]:
    """A quota that allows fewer servers than wanted.

    Parameters
    ----------
    by_quota
        Number of users that quotas allow.
    """
    if by_quota < situation.wanted:
        lowest = min(quotas, key=lambda each: each.servers)
        yield RehearsalProblem(
            ProblemCode.QUOTA,
            f"ResourceQuota {lowest.quota} of namespace {situation.namespace} has {lowest.resource} for "
            f"{lowest.servers} more servers of {situation.expected.profile}; {situation.to_place} are needed",
            f"a limit of the cluster allows {lowest.servers} more servers",
            situation.wanted - by_quota,
        )


def limit_obstacles(situation: RehearsalSituation, new: NewServers, waiting: int) -> Iterator[RehearsalProblem]:
    """A limit of placeholders because of which some nodes are ordered only when users wait, or never.

    Parameters
    ----------
    waiting
        Number of users that wait for these nodes.
    """
    settings = situation.settings
    if waiting > 0 and not new.on_demand:
        yield RehearsalProblem(
            ProblemCode.PLACEHOLDER_LIMIT,
            f"{waiting} users need nodes that come for users of other entries, and nothing adds these nodes",
            "nodes that come for other users are needed, and nothing adds them",
            waiting,
        )
    elif waiting > 0:
        left = settings.placeholders_left or 0
        prepared = f"only {left} servers" if left > 1 else "only 1 server" if left else "no server"
        others = f", {settings.placeholders_of_others} of them for others" if settings.placeholders_of_others else ""
        yield RehearsalProblem(
            ProblemCode.PLACEHOLDER_LIMIT,
            f"max of placeholders of {situation.expected.profile} is {settings.max_placeholders}{others}; "
            f"{situation.wanted} are needed",
            f"{prepared} can be prepared in advance",
            waiting,
        )


def order_obstacles(
    situation: RehearsalSituation, capacity: Capacity, orders: Sequence[NodeOrder], waiting: int
) -> Iterator[RehearsalProblem]:
    """Nodes that nothing orders before the users come, or that nothing adds.

    Parameters
    ----------
    waiting
        Number of users that wait then. It is zero if usual placeholders order the nodes in time.
    """
    settings, missing = situation.settings, [each for each in orders if not each.is_on_order]
    coming = 0 if settings.has_autoscaler else capacity.coming
    servers = sum(each.servers for each in missing) + coming
    if not servers or situation.is_done or (settings.has_autoscaler and not waiting):
        return
    others = ["the nodes that users of other entries need"] if coming else []
    nodes = " and ".join([*(nodes_of(each.nodes, each.supply.name) for each in missing), *others])
    reasons = []
    if settings.not_prepared:
        reasons.append(f"{settings.not_prepared}, so nothing orders {nodes} before the users come")
    elif not settings.is_announced:
        reasons.append(f"no calendar entry announces the users, so nothing orders {nodes} before they come")
    if not settings.has_autoscaler:
        known = "is known (setting autoscaler)" if settings.has_autoscaler is False else "is named (--autoscaler)"
        reasons.append(f"no autoscaler {known}, so nothing is certain to add {nodes}")
    plain = f"nodes for other users are added by {clock(situation.usable_by, situation)}" if coming else ""
    yield RehearsalProblem(ProblemCode.NOBODY_ORDERS, "; ".join(reasons), plain, servers)


def time_obstacles(
    situation: RehearsalSituation, capacity: Capacity, orders: Sequence[NodeOrder], late: int
) -> Iterator[RehearsalProblem]:
    """Why some users wait although all nodes are ordered now.

    Parameters
    ----------
    late
        Number of these users.
    """
    if not late:
        return
    usable = {max(each.usable_at(situation.now)): each for each in orders}
    are_late = bool(usable) and max(usable) > situation.begins
    if situation.settings.has_autoscaler is False and (are_late or capacity.coming):
        yield RehearsalProblem(
            ProblemCode.NOBODY_ADDS,
            f"{late} users need further nodes by {clock(situation.usable_by, situation)}, and no autoscaler is known "
            "(setting autoscaler), so nothing is certain to add them",
            "the present machines are too few, and nothing is known to add further ones in time",
            late,
        )
        return
    if capacity.coming and not are_late:
        yield RehearsalProblem(
            ProblemCode.TOO_LATE,
            "nodes that come for users of other entries are usable after the begin",
            "nodes that come for other users are not ready in time",
            late,
        )
        return
    if not are_late:
        yield RehearsalProblem(
            ProblemCode.TOO_LATE,
            "present nodes still pull the images after the begin",
            "the nodes are not ready in time",
            late,
        )
        return
    last, order = max(usable), usable[max(usable)]
    when, kind = clock(order.order_at, situation), order.supply.name
    if order.is_on_order:
        yield RehearsalProblem(
            ProblemCode.TOO_LATE,
            f"nodes of {kind} were ordered at {when}; the last is usable at {clock(last, situation)}",
            f"the nodes that were ordered at {when} are usable only later",
            late,
        )
    else:
        yield RehearsalProblem(
            ProblemCode.TOO_LATE,
            f"nodes of {kind} had to be ordered at {when}; ordered now, the last is usable at {clock(last, situation)}",
            f"the nodes had to be ordered at {when}, and now it is {clock(situation.now, situation)}",
            late,
        )


def notes(situation: RehearsalSituation, capacity: Capacity) -> Iterator[RehearsalProblem]:
    """Notes on assumptions of the answer; they keep no user from starting."""
    if images := _missing_images(situation, capacity):
        named = ", ".join(images[:_MAX_NAMED])
        more = f" and {len(images) - _MAX_NAMED} more" if len(images) > _MAX_NAMED else ""
        yield _note(
            ProblemCode.IMAGE_MISSING,
            f"no node has image {named}{more}: check that it exists; its first pull takes a while",
            situation.wanted,
        )
    if capacity.leaving:
        named = ", ".join(capacity.leaving[:_MAX_NAMED])
        more = f" and {len(capacity.leaving) - _MAX_NAMED} more" if len(capacity.leaving) > _MAX_NAMED else ""
        yield _note(
            ProblemCode.NODES_LEAVE,
            f"{named}{more} {'is' if len(capacity.leaving) == 1 else 'are'} not needed until then; the autoscaler "
            "removes such nodes, so they are ordered again",
        )
    if back := drained_until_then(situation.view, situation.settings.back_at, situation.begins):
        yield _note(
            ProblemCode.DRAINED,
            f"{listed(back, _MAX_NAMED)} {'is' if len(back) == 1 else 'are'} drained until then, and counted as open",
        )
    for each in capacity.new:
        yield from _notes_of_kind(situation, each)
    if situation.settings.quotas is None:
        yield _note(ProblemCode.NOT_KNOWN, f"ResourceQuotas of namespace {situation.namespace} are not checked")
    for quota in situation.settings.quotas or ():
        if unknown := unchecked_resources(quota):
            yield _note(ProblemCode.NOT_KNOWN, f"ResourceQuota {quota.name} limits {', '.join(unknown)}: not checked")


def _notes_of_kind(situation: RehearsalSituation, new: NewNodes) -> Iterator[RehearsalProblem]:
    supply, slots = new.supply, new.slots
    if slots and new.last_seen is not None:
        at = new.last_seen.astimezone(situation.expected.begins.tzinfo)
        yield _note(
            ProblemCode.NOT_KNOWN,
            f"new nodes of {supply.name} are assumed to be like {new.template_node}, "
            f"which was last seen at {at:%Y-%m-%d %H:%M}",
            new.servers,
        )
    if slots and not new.template_node:
        yield _note(
            ProblemCode.NOT_KNOWN,
            f"no node of {supply.name} {'shows all of its devices' if supply.nodes else 'is present'}: "
            f"{supply.slots} servers on each are described, not proved",
            new.servers,
        )
    elif supply.slots and len(slots) > 1 and slots[0] != supply.slots:
        yield _note(
            ProblemCode.NOT_KNOWN,
            f"a new node of {supply.name} runs {slots[0]} servers; the description says {supply.slots}",
        )
    if slots and new.servers_on_nodes is not None:
        fewest, most = new.servers_on_nodes
        yield _note(
            ProblemCode.NOT_KNOWN,
            f"nodes of {supply.name} differ: {fewest} to {most} servers fit on one. New nodes are assumed to be like "
            f"{new.template_node}",
            new.servers,
        )
    if slots and not supply.lead_is_known:
        yield _note(
            ProblemCode.NOT_KNOWN,
            f"no lead time of {supply.name} is known: {supply.lead.total_seconds() / 60:g} minutes are assumed",
        )


def _missing_images(situation: RehearsalSituation, capacity: Capacity) -> list[str]:
    """Images of the shape that neither a node nor a template of new nodes lists."""
    wanted = set(map(image_name, situation.expected.shape.images))
    for each in (past for new in capacity.new for past in new.supply.past):
        wanted -= set(map(image_name, each.template.node.images))
    for state in situation.view.snapshot.nodes.values():
        if not wanted or len(state.node.images) >= _MAX_LISTED:
            return []
        wanted -= images_on(situation.view, state)
    return sorted(wanted)


def _note(code: ProblemCode, message: str, users: int = 0) -> RehearsalProblem:
    return RehearsalProblem(code, message, users=users, blocks=False)
