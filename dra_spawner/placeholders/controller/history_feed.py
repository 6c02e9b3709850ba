"""What the watch shows, as records of the history: launches of users' servers, lead times of nodes, decisions."""

from __future__ import annotations

import re
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from dra_spawner import names
from dra_spawner.history.decision_log import Decision, DecisionLog, NumberedDecision
from dra_spawner.history.records import (
    SERVICE,
    TRIAL,
    Launch,
    NodeLeadTime,
    PresentServers,
    Record,
    RecordedDecision,
    RecordSink,
    WaitCause,
)
from dra_spawner.kube.cluster_watch import Change, ChangeType
from dra_spawner.kube.pod_ends import DISRUPTION, end_sentence, unannounced_end
from dra_spawner.placeholders.controller.placeholder_controller import PlaceholderController
from dra_spawner.placeholders.controller.records.decision_text import PREFERENCE, REFUSAL
from dra_spawner.placeholders.controller.records.launch_waits import BoundServer, LaunchOutcome
from dra_spawner.placeholders.controller.records.node_lead_times import LeadPhase, ReachedPhase
from dra_spawner.placeholders.lifecycle import IdleAction
from dra_spawner.placeholders.planner.actions import LabelPod, ReservePlaceholder
from dra_spawner.placeholders.planner.cluster.pod_kinds import is_demand
from dra_spawner.placeholders.planner.cluster.view import age
from dra_spawner.placeholders.planner.decide import Decisions
from dra_spawner.placeholders.planner.targets.choice_names import profile_of
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind, Knowledge
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.usage.held_devices import held_devices

#: The API server stamps whole seconds: what happened so short a time ago happened when it was seen.
_JUST: Final = timedelta(seconds=2)
#: A server that has its node within this time did not wait.
_AT_ONCE: Final = timedelta(seconds=5)
#: A pod that waited longer before the node was created did not wait for this node alone.
_LONGEST_ASKED: Final = timedelta(minutes=30)
_LONGEST_REASON: Final = 500
#: Decisions about a user's pod that may not exist yet.
_ABOUT_SERVERS: Final = frozenset({ReservePlaceholder.kind, LabelPod.kind, REFUSAL, PREFERENCE, *IdleAction})
#: Details of decisions that name a user's pod.
_SERVER_DETAILS: Final = ("beside", "for")
_WORD: Final = re.compile(r"[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class RecordSinks(RecordSink):
    """Several sinks as one."""

    sinks: tuple[RecordSink, ...]

    def record(self, record: Record) -> None:
        """Pass a record on to all of them."""
        for sink in self.sinks:
            sink.record(record)

    def record_all(self, records: Iterable[Record]) -> None:
        """Pass records on to all of them."""
        found = tuple(records)
        for sink in self.sinks:
            sink.record_all(found)


class HistoryFeed:
    """Follows the cluster from the start of the process, and passes records on while this replica leads.

    A replica that begins to lead passes on all that it follows. That completes what the leader before it has written,
    and writes nothing twice.

    Parameters
    ----------
    controller
        Shows servers and nodes, and why servers wait.
    sink
        Takes the records.
    """

    def __init__(self, controller: PlaceholderController, decisions: DecisionLog, sink: RecordSink) -> None:
        self._controller = controller
        self._watch = controller.watch
        self._now = controller.now
        self._sink = sink
        self._is_on = False
        self._launches: dict[ObjectKey, Launch] = {}
        self._waited_for: Counter[str] = Counter()
        self._bound: dict[ObjectKey, BoundServer] = {}
        self._reasons: dict[ObjectKey, str] = {}
        self._disrupted: dict[ObjectKey, str] = {}
        self._seen: dict[ObjectKey, Pod] = {}
        self._forced: set[ObjectKey] = set()
        self._nodes: dict[str, NodeLeadTime] = {}
        self._latest: Decisions | None = None
        self._decided: dict[ObjectKey, str] = {}
        # First, so that a server that is bound is known to be when its change comes.
        controller.launch_waits.on_launch(self._note_bound)
        controller.node_lead_times.on_reached(self._note_reached)
        controller.watch.on_change(self._note)
        decisions.on_append(self._note_decision)

    # --- leading and standing by --------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Pass records on from now on, after all that is known: the watch has synced."""
        self._is_on = True
        self.repeat()

    def end(self) -> None:
        """Pass nothing on any more."""
        self._is_on = False

    def repeat(self) -> None:
        """Pass on all that is known; nothing while another replica leads."""
        if not self._is_on:
            return
        present = PresentServers(frozenset(each.uid for each in self._launches.values()))
        self._sink.record_all((present, *self._launches.values(), *self._nodes.values()))

    def _pass_on(self, record: Record) -> None:
        if self._is_on:
            self._sink.record(record)

    # --- servers ------------------------------------------------------------------------------------------------------

    def _note(self, change: Change) -> None:
        match change.kind:
            case Kind.POD:
                self._note_pod(change)
            case Kind.NODE if change.type is ChangeType.REMOVED:
                self._nodes.pop(change.key.name, None)

    def _note_bound(self, bound: BoundServer) -> None:
        self._bound[ObjectKey.of(bound.pod)] = bound

    def _note_pod(self, change: Change) -> None:
        key = change.key
        pod = self._watch.snapshot.pods.get(key) if change.type is not ChangeType.REMOVED else None
        known = self._launches.get(key)
        if pod is not None and pod.node_name:
            self._note_pod_of_node(pod)
        if known is not None and (pod is None or pod.uid != known.uid):
            self._end(key, known)
            known = None
        if pod is None or not self._controller.launch_waits.is_server(pod):
            return
        if known is None:
            self._waited_for.update(self._words_waited_for(key))
        launch = self._following(key, pod, known)
        if launch != known:
            self._launches[key] = launch
            self._pass_on(launch)

    def _end(self, key: ObjectKey, launch: Launch) -> None:
        """A pod is gone, or another one has its name."""
        del self._launches[key]
        for word in self._words_waited_for(key):
            self._waited_for[word] -= 1
            if not self._waited_for[word]:
                del self._waited_for[word]
        self._reasons.pop(key, None)
        self._bound.pop(key, None)
        because = self._disrupted.pop(key, "") or self._unannounced_end(key, self._seen[key])
        del self._seen[key]
        self._forced.discard(key)
        if launch.ended is None:
            self._pass_on(replace(launch, ended=self._now(), ended_because=because))

    def _unannounced_end(self, key: ObjectKey, pod: Pod) -> str:
        is_known = self._watch.knowledge()[Kind.NODE] is Knowledge.KNOWN
        is_gone = is_known and pod.node_name not in self._watch.snapshot.nodes
        is_stopped = pod.is_deleted and key not in self._forced
        return unannounced_end(pod.node_name, phase=pod.phase, is_stopped=is_stopped, node_is_gone=is_gone)

    def _following(self, key: ObjectKey, pod: Pod, known: Launch | None) -> Launch:
        """What is known of a launch after a change of its pod."""
        launch = known or self._new(key, pod)
        if not launch.profile:
            # Its shape may be published only now.
            choice = self._controller.name_of(pod.labels.get(names.SHAPE, "")) or pod.labels.get(names.PROFILE, "")
            launch = replace(launch, profile=profile_of(choice), choice=choice)
        if not pod.node_name:
            self._note_reason(key, pod)
        elif launch.bound is None:
            launch = self._with_node(key, pod, launch, was_seen_waiting=known is not None)
        self._note_disruption(key, pod)
        before, observed = self._seen.get(key), self._watch.observed(Kind.POD, key)
        is_new = pod.is_deleted and before is not None and not before.is_deleted
        # A grace of 0 is the end of each deletion, and the begin of one by force.
        if is_new and observed is not None and observed.grace_seconds == 0:
            self._forced.add(key)
        self._seen[key] = pod
        if launch.devices is None and pod.node_name:
            launch = replace(launch, devices=held_devices(self._watch.snapshot, pod))
        if pod.is_running and launch.running is None:
            launch = replace(launch, running=self._since(key, "Ready") or self._now())
        if pod.is_finished and launch.ended is None:
            # One that never ran was never ready, either.
            since = None if known is not None else self._since(key, "Ready", status="False")
            ended = max(since or self._now(), launch.bound or launch.asked)
            because = self._disrupted.get(key, "") or self._unannounced_end(key, pod)
            launch = replace(launch, ended=ended, ended_because=because)
        return launch

    def _note_disruption(self, key: ObjectKey, pod: Pod) -> None:
        """Remember why Kubernetes is about to end a server: the condition may be gone with the pod a moment later."""
        observed = self._watch.observed(Kind.POD, key)
        found = observed.conditions.get(DISRUPTION) if observed is not None else None
        if found is not None and found.status == "True":
            self._disrupted[key] = end_sentence((found.reason,), pod.node_name)
        else:
            self._disrupted.pop(key, None)

    def _new(self, key: ObjectKey, pod: Pod) -> Launch:
        observed = self._watch.observed(Kind.POD, key)
        annotated = observed.annotations.get(names.USERNAME, "") if observed is not None else ""
        user = annotated or pod.labels.get(names.USERNAME, "")
        source = SERVICE if is_demand(pod) else TRIAL
        return Launch(pod.uid, self._moment(pod.created), user=user, pod=pod.name, source=source)

    def _with_node(self, key: ObjectKey, pod: Pod, launch: Launch, *, was_seen_waiting: bool) -> Launch:
        waits, bound = self._controller.launch_waits, self._bound.pop(key, None)
        at = self._since(key, "PodScheduled") or (self._now() if was_seen_waiting else launch.asked)
        warm: bool | None
        if bound is not None:
            warm = bound.outcome is LaunchOutcome.HIT
        else:
            # A placeholder without claims leaves no trace.
            warm = True if waits.has_warm_claim(pod) else False if pod.claims else None
        cause = WaitCause.OTHER
        if warm or at - launch.asked <= _AT_ONCE:
            cause = WaitCause.NONE
        elif waits.is_older_than_node(pod, launch.asked):
            cause = WaitCause.NODE
        elif names.PREEMPTED_AT in pod.labels:
            cause = WaitCause.PREEMPTION
        reason = self._reasons.pop(key, "") if cause is not WaitCause.NONE else ""
        self._reasons.pop(key, None)
        mentions = self._mentioned(reason)
        return replace(launch, bound=at, node=pod.node_name, warm=warm, cause=cause, reason=reason, mentions=mentions)

    def _note_reason(self, key: ObjectKey, pod: Pod) -> None:
        """Remember why a server waits: what was decided, else what the scheduler says."""
        latest = self._controller.latest
        if latest is not self._latest:
            self._latest = latest
            self._decided = {each.pod: each.reason for each in latest.pending} if latest is not None else {}
        if reason := self._decided.get(key) or self._watch.scheduler_message(pod):
            self._reasons[key] = reason[:_LONGEST_REASON]

    def _since(self, key: ObjectKey, condition: str, status: str = "True") -> datetime | None:
        """Time of a pod condition's last change; None if the condition has another status.

        The API has whole seconds: a change of this second counts as one of this moment.
        """
        observed = self._watch.observed(Kind.POD, key)
        found = observed.conditions.get(condition) if observed is not None else None
        if found is None or found.status != status or not found.since:
            return None
        return self._moment(found.since)

    def _moment(self, stamp: str) -> datetime:
        now = self._now()
        since = age(stamp, now)
        return now - since if since > _JUST else now

    # --- nodes --------------------------------------------------------------------------------------------------------

    def _note_reached(self, reached: ReachedPhase) -> None:
        known = self._nodes.get(reached.node)
        if known is None or known.uid != reached.uid:
            known = NodeLeadTime(reached.uid, reached.node, reached.kind, reached.created)
        match reached.phase:
            case LeadPhase.READY:
                known = replace(known, ready=reached.at)
            case LeadPhase.SLICES:
                known = replace(known, slices=reached.at)
            case LeadPhase.IMAGES:
                known = replace(known, images=reached.at)
        self._nodes[reached.node] = known
        for pod in self._pods_of(reached.node):
            known = _asked_by(known, self._moment(pod.created))
        self._nodes[reached.node] = known
        self._pass_on(known)

    def _note_pod_of_node(self, pod: Pod) -> None:
        known = self._nodes.get(pod.node_name)
        if known is None:
            return
        now_known = _asked_by(known, self._moment(pod.created))
        if now_known is not known:
            self._nodes[pod.node_name] = now_known
            self._pass_on(now_known)

    def _pods_of(self, node: str) -> Iterable[Pod]:
        state = self._watch.snapshot.nodes.get(node)
        return state.pods if state is not None else ()

    # --- decisions ----------------------------------------------------------------------------------------------------

    def _note_decision(self, numbered: NumberedDecision) -> None:
        if self._is_on:
            decision = numbered.decision
            texts = (decision.subject, decision.reason, decision.outcome, *map(str, decision.details.values()))
            mentions = self._mentioned(" ".join(texts), *self._servers_of(decision))
            self._sink.record(RecordedDecision(secrets.token_hex(16), decision, mentions))

    def _servers_of(self, decision: Decision) -> Iterator[str]:
        """Names of servers' pods, by the decision's own fields: a server may not exist yet, or no longer."""
        if decision.kind in _ABOUT_SERVERS:
            yield decision.subject.removeprefix("Pod ")
        for name in _SERVER_DETAILS:
            if found := decision.details.get(name):
                yield str(found)

    def _mentioned(self, text: str, *servers: str) -> tuple[str, ...]:
        """Words of a text that tell who a user is: names of servers' pods, and of namespaces that users have."""
        found = {word for word in _WORD.findall(text) if word in self._waited_for}
        for server in servers:
            namespace, _, name = server.partition("/")
            found.update(self._words_waited_for(ObjectKey(namespace, name)))
        return tuple(sorted(filter(None, found)))

    def _words_waited_for(self, key: ObjectKey) -> Iterable[str]:
        """Words that identify the user: the pod's name and, if users have namespaces, its namespace."""
        return (key.namespace, key.name) if self._controller.settings.user_namespaces else (key.name,)


def _asked_by(lead_time: NodeLeadTime, created: datetime) -> NodeLeadTime:
    """The lead time, after a pod was seen on the node."""
    before = lead_time.created - created
    if not timedelta(0) < before < _LONGEST_ASKED or (lead_time.asked is not None and lead_time.asked <= created):
        return lead_time
    return replace(lead_time, asked=created)
