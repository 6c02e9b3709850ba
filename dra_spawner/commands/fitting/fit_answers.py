"""Answers: whether the claims without allocation fit together, for every node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from dra_spawner.commands.cluster_files.questions import ClusterObjects, FitInput, FitQuestion
from dra_spawner.dra.allocation.allocator import AllocationError, DoesNotFit
from dra_spawner.dra.allocation.miscounts import miscounts
from dra_spawner.dra.allocation.verdicts import NodeVerdict, VerdictKind, error_verdict, fitting_verdict
from dra_spawner.dra.budget import SearchBudget, SearchStopped
from dra_spawner.dra.errors import FatalReason
from dra_spawner.dra.model.objects import AttributeKind, ResourceClaim
from dra_spawner.dra.model.same_hardware import pairs_by_node
from dra_spawner.dra.scheduler_rules import SchedulerRules
from dra_spawner.simulator.devices.device_state import DeviceState, Verdict, Verdicts
from dra_spawner.simulator.devices.search_limits import CommonBudget
from dra_spawner.simulator.model.claims import ClaimTemplate
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.packing.packed_claims import packed_claims
from dra_spawner.simulator.packing.packing import Packing
from dra_spawner.simulator.usage.device_doubts import missing_devices

NOTHING_ASKED: Final = (
    "nothing asks for a device: give a ResourceClaim, a ResourceClaimTemplate or a Pod that names one"
)
_SEVERAL_PODS: Final = (
    "all claims are fitted on one node together, and several pods may be on several nodes: ask for each pod alone"
)


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes with the same verdict; the verdict names the first of them."""

    nodes: tuple[str, ...]
    verdict: NodeVerdict


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one question.

    Attributes
    ----------
    claims
        Claims to allocate, in order.
    nodes
        All nodes, in the order given.
    problem
        The problem on every node: a claim that no device can serve, or an object that the API server would refuse.
    problems
        Problems of single nodes, by name.
    verdicts
        Verdicts on all other nodes; None if there is a problem on every node.
    warnings
        A sentence for each allocated claim that consumes less than requested: nodes are fuller than they seem.
    refused_object
        Problem of an object that the API server would refuse, if it leaves the answer open on all nodes; empty if there
        is none.
    """

    name: str
    claims: tuple[ResourceClaim, ...]
    nodes: tuple[str, ...]
    problem: str
    problems: Mapping[str, str]
    verdicts: Verdicts | None
    warnings: tuple[str, ...] = ()
    refused_object: str = ""
    packed: Callable[[str], Verdict] | None = None
    """By node where the claims fit: the verdict where the service packs devices; None if nothing is packed."""

    @property
    def fits_somewhere(self) -> bool | None:
        """Whether the claims fit on some node; None if the search was stopped before it was known."""
        kinds = {group.verdict.kind for group in self.groups()}
        if VerdictKind.FITS in kinds:
            return True
        return None if VerdictKind.STOPPED in kinds else False

    @property
    def asks_nothing(self) -> bool:
        """Whether nothing asks for a device, so that the answer is neither yes nor no."""
        return self.problem == NOTHING_ASKED

    @property
    def not_judged(self) -> str:
        """Problem of an object that the API server would refuse, if it leaves open whether the claims fit; or empty."""
        if self.refused_object:
            return self.refused_object
        if self.fits_somewhere:
            return ""
        devices = (group.verdict for group in self.groups() if group.verdict.fatal is FatalReason.DEVICE)
        return next(iter(self.problems.values()), "") or next((verdict.message for verdict in devices), "")

    def groups(self) -> Iterator[NodeGroup]:
        """Nodes grouped by verdict; two groups may have the same text."""
        if self.verdicts is None:
            if self.nodes:
                yield NodeGroup(self.nodes, self.on(self.nodes[0]))
            return
        for name in self.problems:
            yield NodeGroup((name,), self.on(name))
        for group in self.verdicts:
            names = tuple([name for name in group.nodes if name not in self.problems])
            if names:
                yield NodeGroup(names, self.on(names[0]))

    def on(self, node: str) -> NodeVerdict:
        """The verdict on one node."""
        problem = self.problem or self.problems.get(node, "")
        if problem or self.verdicts is None:
            return NodeVerdict(node, VerdictKind.ERROR, message=problem)
        verdict = self.verdicts.on(node)
        if self.packed is not None and isinstance(verdict, tuple):
            verdict = self.packed(node)
        return _node_verdict(node, self.claims, verdict)

    def to_json(self) -> dict[str, object]:
        """The answer as a line of ``--format json``."""
        return {
            "name": self.name,
            "nodes": {node: self.on(node).to_json() for node in self.nodes},
            **({"warnings": list(self.warnings)} if self.warnings else {}),
        }


def answer_all(
    fit_input: FitInput,
    rules: SchedulerRules,
    max_steps: int | None,
    new_budget: Callable[[], SearchBudget] = SearchBudget,
    *,
    packs_devices: bool = False,
) -> Iterator[Answer]:
    """Answer one question after the other; work on shared objects is done once.

    Parameters
    ----------
    max_steps
        Limit of the search on one node.
    new_budget
        Makes the budget of a question when its turn comes.
    packs_devices
        Whether the claims get the alternatives of a hub whose service packs devices. An answer holds until the next
        question.
    """
    common = fit_input.common
    state = DeviceState(
        common.slices.values(),
        common.classes.values(),
        common.nodes.values(),
        common.claims.values(),
        rules,
        taint_rules=common.rules.values(),
        max_steps=max_steps,
    )
    limits = CommonBudget(new_budget)
    state.limit_searches(limits)
    for question in fit_input.questions:
        limits.next_question()
        mark = state.journal.mark()
        yield _answer(state, common, question, rules, packs_devices=packs_devices)
        state.journal.revert_to(mark)


def _answer(
    state: DeviceState, common: ClusterObjects, question: FitQuestion, rules: SchedulerRules, *, packs_devices: bool
) -> Answer:
    own = question.objects
    _add(state, own)
    claims = {**common.claims, **own.claims}
    templates, pods = {**common.templates, **own.templates}, {**common.pods, **own.pods}
    asked = wanted_claims(claims.values(), templates.values(), pods.values())
    wanted = tuple(asked)
    broken_nodes = {**common.broken_nodes, **own.broken_nodes}
    problems: dict[str, str] = dict(broken_nodes)
    general = [
        *common.broken_claims,
        *own.broken_claims,
        *common.broken_rules,
        *own.broken_rules,
        *asked.problems,
        *_class_problems(wanted, common, own),
    ]
    for node, problem in (*common.broken_slices, *own.broken_slices):
        if node:
            problems.setdefault(node, problem)
        else:
            general.append(problem)
    nodes = tuple(dict.fromkeys([*common.nodes, *own.nodes, *broken_nodes]))
    refused_object = general[0] if general else ""
    verdicts: Verdicts | None = None
    if asked.asks_nothing and not general:
        general.append(NOTHING_ASKED)
    if not general:
        try:
            verdicts = state.verdicts(wanted)
        except AllocationError as error:
            general.append(str(error))
    problems = {name: problem for name, problem in problems.items() if name in nodes}
    packing = Packing(state, wanted) if packs_devices and verdicts is not None else None
    warnings = (
        *((f"no device is packed: {packing.problem}",) if packing is not None and packing.problem else ()),
        *(text for claim in claims.values() for text in miscounts(claim, claim.status.devices or ())),
        *_doubts(state, claims.values()),
        *_list_attributes(state, rules, verdicts),
        *((_SEVERAL_PODS,) if asked.pods > 1 else ()),
    )
    problem = general[0] if general else ""
    packed = partial(_packed_verdict, state, packing, wanted) if packing is not None and not packing.problem else None
    return Answer(question.name, wanted, nodes, problem, problems, verdicts, warnings, refused_object, packed)


def _packed_verdict(state: DeviceState, packing: Packing, claims: Sequence[ResourceClaim], node: str) -> Verdict:
    """The verdict on a node on claims with preferred devices."""
    try:
        return state.allocate(node, packed_claims(packing, claims, node))
    except (AllocationError, SearchStopped) as error:
        return error


def _doubts(state: DeviceState, claims: Iterable[ResourceClaim]) -> Iterator[str]:
    """Why a server may not get devices that kube-scheduler gives away."""
    slices = state.slices.values()
    held = [(str(claim), part) for claim in claims for part in claim.status.devices or ()]
    for missing in missing_devices(slices, held):
        yield (
            f"{missing}: kube-scheduler does not count what it takes of pool {missing.device.driver}/"
            f"{missing.device.pool}, so no verdict on this pool is certain"
        )
    for pair in pairs_by_node(slices):
        part = "as its parts, too" if pair.is_part else f"as {pair.other.id}, too"
        yield f"device {pair.device.id} is published {part}, without shared counters: it may be given away twice"


def _list_attributes(state: DeviceState, rules: SchedulerRules, verdicts: Verdicts | None) -> Iterator[str]:
    """Devices whose lists make selectors fail, where they do."""
    if rules.selectors_see_lists or verdicts is None:
        return
    failed = (group.verdict for group in verdicts if isinstance(group.verdict, AllocationError))
    if not any(error.reason is FatalReason.SELECTOR for error in failed):
        return
    for item in state.slices.values():
        for device in item.devices:
            for name, attribute in device.description.attributes.items():
                if attribute.kind in _LISTS:
                    yield (
                        f"attribute {name} of device {device.id} is a list, at which selectors fail without the "
                        "feature gate DRAListTypeAttributes; --list-attributes decides as with it"
                    )
                    return


_LISTS: Final = (AttributeKind.STRINGS, AttributeKind.INTS, AttributeKind.BOOLS, AttributeKind.VERSIONS)


def _add(state: DeviceState, own: ClusterObjects) -> None:
    for item in own.slices.values():
        state.put_slice(item)
    for rule in own.rules.values():
        state.put_rule(rule)
    for device_class in own.classes.values():
        state.put_class(device_class)
    for node in own.nodes.values():
        state.add_node(node)
    for key, claim in own.claims.items():
        if key in state.holders:
            state.release(key)
        if claim.status.devices is not None:
            state.record(key, claim.status.devices)


def _class_problems(wanted: Sequence[ResourceClaim], common: ClusterObjects, own: ClusterObjects) -> Iterator[str]:
    """Problems of the classes that the claims name."""
    broken = {**common.broken_classes, **own.broken_classes}
    for claim in wanted if broken else ():
        for request in claim.requests:
            for alternative in request.alternatives:
                if alternative.device_class_name in broken:
                    yield broken[alternative.device_class_name]


def _node_verdict(node: str, claims: Sequence[ResourceClaim], verdict: Verdict) -> NodeVerdict:
    if isinstance(verdict, SearchStopped):
        return NodeVerdict(node, VerdictKind.STOPPED, message=str(verdict), fatal=FatalReason.ABORTED)
    if isinstance(verdict, AllocationError):
        return error_verdict(node, verdict)
    if isinstance(verdict, DoesNotFit):
        return NodeVerdict(
            node, VerdictKind.UNAVAILABLE, message=str(verdict), reason=verdict.reason, no_fit=verdict.kind
        )
    return fitting_verdict(node, claims, verdict)


_DEFAULT = "default"


class WantedClaims(list[ResourceClaim]):
    """The claims in order.

    Attributes
    ----------
    problems
        A sentence for each object that a pod names and that was not given.
    pods
        Number of pods that ask for some of them.
    """

    def __init__(self, claims: Iterable[ResourceClaim]) -> None:
        super().__init__(claims)
        self.problems: list[str] = []
        self.pods = 0

    @property
    def asks_nothing(self) -> bool:
        """Whether no claim has a request."""
        return not any(claim.requests for claim in self)


def wanted_claims(
    claims: Iterable[ResourceClaim],
    templates: Iterable[ClaimTemplate],
    pods: Iterable[Pod],
) -> WantedClaims:
    """The claims to fit.

    A pod that has no node yet asks for a claim of each template that it names; a template that no pod names counts as
    one claim.
    """
    claims = tuple(claims)
    found = WantedClaims(claim for claim in claims if not claim.is_allocated)
    by_name = {(each.namespace or _DEFAULT, each.name): each for each in templates}
    known = {(each.namespace or _DEFAULT, each.name) for each in claims}
    named: set[tuple[str, str]] = set()
    for pod in pods:
        namespace = pod.namespace or _DEFAULT
        named |= {(namespace, each.template) for each in pod.claims if each.template}
        if pod.node_name or pod.is_finished or pod.is_deleted:
            continue
        found.pods += bool(pod.claims)
        _add_of_pod(pod, namespace, by_name, known, found)
    found += [
        replace(each.pattern, name=each.name, namespace=each.namespace)
        for key, each in by_name.items()
        if key not in named
    ]
    return found


def _add_of_pod(
    pod: Pod,
    namespace: str,
    templates: Mapping[tuple[str, str], ClaimTemplate],
    known: set[tuple[str, str]],
    found: WantedClaims,
) -> None:
    for each in pod.claims:
        if not each.is_needed or (each.claim and (namespace, each.claim) in known):
            continue
        template = templates.get((namespace, each.template)) if each.template else None
        if template is not None:
            found.append(replace(template.pattern, name=f"{pod.name}-{each.name}", namespace=pod.namespace))
        else:
            kind, name = ("ResourceClaim", each.claim) if each.claim else ("ResourceClaimTemplate", each.template)
            found.problems.append(f"Pod {pod} names {kind} {name}, which was not given")
