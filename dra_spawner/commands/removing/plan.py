"""The plan: which objects and labels are removed, and which stay and why. Decided from the objects alone.

The rule: an object that a server uses, or may be about to use, stays; every other object of this project is removed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from dra_spawner import names
from dra_spawner.commands.removing import marks
from dra_spawner.commands.removing.found_objects import FoundObject, FoundPod, SurveyedObjects
from dra_spawner.common.counted_text import listed

#: Values of the label `names.PART` on objects of starts, and their descriptions in reasons.
_PARTS: Final = {
    "device-claim": "created by a start",
    "companion": "created by a start",
    "standing": "shared by servers",
}
_STOP: Final = "It is removed when the server is stopped in the hub, or by the next uninstall after that."
_AGAIN: Final = "Run uninstall again then, or now with --force if no hub starts servers any more."
_SETTINGS: Final = "what people set by the service's API"
_MAX_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class Removal:
    """An object to delete.

    Attributes
    ----------
    only_unchanged
        Whether to delete it only if it has not changed since the survey, as a start may begin to use it.
    """

    object: FoundObject
    reason: str
    only_unchanged: bool = False


@dataclass(frozen=True, slots=True)
class Unmarking:
    """Labels and annotations to remove from an object that stays."""

    object: FoundObject
    labels: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Release:
    """Consumers to remove from a claim; no controller knows them, so they would hold it for ever."""

    claim: FoundObject
    consumers: tuple[str, ...]
    """Uids of the consumers."""


@dataclass(frozen=True, slots=True)
class LeftObject:
    """An object that stays, the reason, and what removes it."""

    object: FoundObject
    reason: str
    advice: str
    is_administrators: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """Decisions about all objects, each part ordered by namespace and name."""

    removals: tuple[Removal, ...] = ()
    unmarkings: tuple[Unmarking, ...] = ()
    releases: tuple[Release, ...] = ()
    left: tuple[LeftObject, ...] = ()


def plan_removal(surveyed: SurveyedObjects, now: datetime, *, force: bool = False, nodes_used_by: str = "") -> Plan:
    """Decide about every object.

    Parameters
    ----------
    force
        Whether starts that may be under way count as over.
    nodes_used_by
        Lease of a leading service in another namespace, which needs the labels of nodes; empty if there is none.
    """
    return _Planning(surveyed, now, force, nodes_used_by).plan()


@dataclass
class _Planning:
    surveyed: SurveyedObjects
    now: datetime
    force: bool
    nodes_used_by: str
    removals: list[Removal] = field(default_factory=list)
    unmarkings: list[Unmarking] = field(default_factory=list)
    releases: list[Release] = field(default_factory=list)
    left: list[LeftObject] = field(default_factory=list)
    _servers: dict[tuple[str, str, str], list[FoundPod]] = field(default_factory=lambda: defaultdict(list))
    """Pods that use an object, by its namespace, kind and name."""
    _servers_of_node: dict[str, list[FoundPod]] = field(default_factory=lambda: defaultdict(list))

    def plan(self) -> Plan:
        placeholders = []
        for pod in self.surveyed.pods:
            if pod.found.is_placeholder:
                placeholders.append(pod)
            elif pod.found.is_chart_test:
                self.removals.append(Removal(pod.found, "a pod of `helm test`"))
            else:
                self._decide_about_server(pod)
        for each in self.surveyed.objects:
            self._decide_about_object(each)
        claims = {
            (each.object.namespace, each.object.name): each
            for each in self.left
            if each.object.kind.plural == "resourceclaims"
        }
        for pod in placeholders:
            self._decide_about_placeholder(pod, claims)
        for node in self.surveyed.nodes:
            self._decide_about_node(node)
        for lease in self.surveyed.leases:
            self.removals.append(Removal(lease.found, "the service's Lease for leader election"))
        for each in self.surveyed.administrators:
            if _is_settings(each) and names.HELM_RELEASE not in each.annotations:
                self.removals.append(Removal(each, _SETTINGS))
                continue
            if release := each.annotations.get(names.HELM_RELEASE):
                advice = f"helm uninstall {release} -n {each.annotations.get(names.HELM_NAMESPACE, each.namespace)}"
                reason = "Helm installed it"
            else:
                namespace = f" -n {each.namespace}" if each.namespace else ""
                advice = f"kubectl delete {_resource(each)} {each.name}{namespace}"
                reason = "an administrator applied it (`helm template`, or a file of this project)"
            self.left.append(LeftObject(each, reason, advice, is_administrators=True))
        return Plan(
            tuple(sorted(self.removals, key=lambda each: _order(each.object))),
            tuple(sorted(self.unmarkings, key=lambda each: _order(each.object))),
            tuple(sorted(self.releases, key=lambda each: _order(each.claim))),
            tuple(sorted(self.left, key=lambda each: (each.is_administrators, _order(each.object)))),
        )

    # Pods

    def _decide_about_server(self, pod: FoundPod) -> None:
        found = pod.found
        if pod.is_over:
            labels = tuple(key for key in marks.POD_LABELS if key in found.labels)
            annotations = tuple(key for key in marks.POD_ANNOTATIONS if key in found.annotations)
            if labels or annotations:
                self.unmarkings.append(Unmarking(found, labels, annotations))
            return
        uses = [
            ("uid", found.uid),
            *(("claim", each) for each in pod.claims),
            *(("template", t) for t in pod.templates),
        ]
        if start := found.annotations.get(names.START):
            uses.append(("start", start))
        if names.VLAN in found.labels:
            uses.append(("vlan", ""))
        for what, name in uses:
            self._servers[found.namespace, what, name].append(pod)
        if pod.is_marked:
            self._servers_of_node[pod.node].append(pod)
            self.left.append(LeftObject(found, "a server", _STOP))

    def _decide_about_placeholder(self, pod: FoundPod, left: dict[tuple[str, str], LeftObject]) -> None:
        """Keep a placeholder if its deletion could harm a server that is starting with its claim."""
        namespace = pod.found.namespace
        for name in sorted(pod.claims):
            starting = [each for each in self._servers.get((namespace, "claim", name), ()) if each.is_starting]
            if starting and not pod.found.is_terminating:
                reason = f"{_names(starting)} is starting with its claim, which must stay prepared on the node"
                self.left.append(LeftObject(pod.found, reason, "Run uninstall again when the server runs."))
                return
            claim = left.get((namespace, name))
            if claim is not None and claim.advice == _AGAIN:
                self.left.append(LeftObject(pod.found, claim.reason, _AGAIN))
                return
        self.removals.append(Removal(pod.found, "a placeholder"))

    # Objects

    def _decide_about_object(self, found: FoundObject) -> None:
        part = found.labels.get(names.PART, "")
        if found.kind.plural == "configmaps" and not part:
            self._decide_about_config_map(found)
        elif found.kind.plural == "resourceclaims" and (names.SHAPE in found.labels or part in _PARTS):
            self._decide_about_claim(found)
        elif part in _PARTS:
            self._decide_about_part(found, self._users(found))
        else:
            advice = f"Look at it: kubectl get {_resource(found)} {found.name} -n {found.namespace} -o yaml"
            reason = f"it has the label {names.MANAGED_BY}: {names.MANAGER}, but dra-spawner creates none of this kind"
            self.left.append(LeftObject(found, reason, advice, is_administrators=True))

    def _decide_about_config_map(self, found: FoundObject) -> None:
        if found.name == names.SHAPES_CONFIG_MAP or names.PUBLISHER in found.annotations:
            self.removals.append(Removal(found, "the profiles that the hub published"))
        elif _is_settings(found):
            self.removals.append(Removal(found, _SETTINGS))
        elif found.name == names.TICKETS_CONFIG_MAP:
            self.removals.append(Removal(found, "the queue of users who wait for devices"))
        elif found.name != names.VLANS_CONFIG_MAP:
            advice = f"Look at it: kubectl get configmaps {found.name} -n {found.namespace} -o yaml"
            self.left.append(LeftObject(found, "its purpose is unknown", advice, is_administrators=True))
        elif servers := [pod for key, pods in self._servers.items() if key[1] == "vlan" for pod in pods]:
            reason = f"the record of VLANs in use; {_names(servers)} {_uses(servers)} one"
            self.left.append(LeftObject(found, reason, "Stop the servers, then run uninstall again."))
        else:
            self.removals.append(Removal(found, "the record of VLANs in use; no server uses one"))

    def _decide_about_claim(self, found: FoundObject) -> None:
        users = self._users(found)
        foreign = [c for c in found.consumers if c.resource != "pods" or c.group]
        ours = tuple(c.uid for c in foreign if c.group == names.CONSUMER_GROUP)
        others = [c for c in foreign if c.group != names.CONSUMER_GROUP]
        if others:
            title = f"{others[0].resource} {others[0].name}"
            self.left.append(LeftObject(found, f"{title} uses it", f"Run uninstall again when {title} is gone."))
            return
        before = len(self.removals)
        self._decide_about_part(found, users)
        if ours and (users or len(self.removals) > before):
            self.releases.append(Release(found, ours))

    def _decide_about_part(self, found: FoundObject, users: list[FoundPod]) -> None:
        """Decide about a claim, a template or a companion object."""
        is_shared = found.labels.get(names.PART) == "standing"
        if users:
            self.left.append(LeftObject(found, f"{_names(users)} {_uses(users)} it", _STOP))
        elif (until := self._may_be_used_until(found)) and not self.force:
            reason = f"a server may be starting with it, until {until:%H:%M:%S} UTC"
            self.left.append(LeftObject(found, reason, _AGAIN))
        elif found.is_placeholder or names.SHAPE in found.labels:
            self.removals.append(Removal(found, "a warm claim that no server uses"))
        else:
            reason = f"{_PARTS[found.labels[names.PART]]}; no server uses it"
            self.removals.append(Removal(found, reason, only_unchanged=is_shared))

    def _users(self, found: FoundObject) -> list[FoundPod]:
        """The servers and other pods that use an object."""
        keys = [("uid", uid) for uid in found.owners]
        if found.kind.plural == "resourceclaims":
            keys += [("claim", found.name), *(("uid", consumer.uid) for consumer in found.consumers)]
        if found.kind.plural == "resourceclaimtemplates":
            keys.append(("template", found.name))
        if start := found.annotations.get(names.START):
            keys.append(("start", start))
        keys += [("start", start) for start in _starts_of(found)]
        users = {pod.found.name: pod for key in keys for pod in self._servers.get((found.namespace, *key), ())}
        return [users[name] for name in sorted(users)]

    def _may_be_used_until(self, found: FoundObject) -> datetime | None:
        """The time until which a start may begin to use an object without users; None if that time is over."""
        times = [_time(found.annotations[names.START_PREFIX + start]) for start in _starts_of(found)]
        # A start's own objects have an owner as soon as its pod exists.
        if not found.owners:
            times.append(_time(found.annotations.get(names.START_ENDS, "")))
        if names.RESERVED_FOR in found.labels:
            times.append(_seconds(found.labels.get(names.RESERVED_UNTIL, "")))
        return max((each for each in times if each is not None and each > self.now), default=None)

    def _decide_about_node(self, node: FoundObject) -> None:
        labels = marks.node_labels(node.labels)
        if labels and self.nodes_used_by:
            reason = f"a service elsewhere leads ({self.nodes_used_by}) and uses its labels {', '.join(labels)}"
            self.left.append(LeftObject(node, reason, "Uninstall there, too.", is_administrators=True))
            return
        servers = self._servers_of_node.get(node.name, [])
        if servers and names.IMAGES_READY in labels:
            labels = tuple(each for each in labels if each != names.IMAGES_READY)
            reason = (
                f"{_names(servers)} may require its label {names.IMAGES_READY}: a kubelet that restarts would end them"
            )
            self.left.append(LeftObject(node, reason, "Stop the servers, then run uninstall again."))
        if labels:
            self.unmarkings.append(Unmarking(node, labels))


def _is_settings(found: FoundObject) -> bool:
    return found.kind.plural == "configmaps" and found.name == names.SETTINGS_CONFIG_MAP


def _starts_of(found: FoundObject) -> list[str]:
    prefix = names.START_PREFIX
    return [key.removeprefix(prefix) for key in found.annotations if key.startswith(prefix)]


def _order(found: FoundObject) -> tuple[str, str, str]:
    return found.namespace, found.kind.plural, found.name


def _resource(found: FoundObject) -> str:
    """The resource with its group, as an argument of kubectl."""
    group = found.kind.api_version.rpartition("/")[0]
    return f"{found.kind.plural}.{group}" if group else found.kind.plural


def _names(pods: Iterable[FoundPod]) -> str:
    return listed(sorted(f"{pod.found.namespace}/{pod.found.name}" for pod in pods), _MAX_NAMED)


def _uses(pods: list[FoundPod]) -> str:
    return "uses" if len(pods) == 1 else "use"


def _time(text: str) -> datetime | None:
    """Parse a time of an annotation; None if it is not a time with a zone."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else None


def _seconds(text: str) -> datetime | None:
    """Parse a time of a label, in seconds since 1970; None if it is not a number of seconds."""
    try:
        return datetime.fromtimestamp(int(text), UTC)
    except (ValueError, OverflowError, OSError):
        return None
