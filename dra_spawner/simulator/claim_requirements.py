"""The claims that a pod needs: existing claims, and claims that the claim controller will create for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dra_spawner.dra.model.objects import ResourceClaim
from dra_spawner.simulator.cluster_state import ClusterState
from dra_spawner.simulator.model.claims import MAX_CONSUMERS, ObjectKey, TrackedClaim
from dra_spawner.simulator.model.cluster_objects import Kind
from dra_spawner.simulator.model.pods import ClaimReference, Pod
from dra_spawner.simulator.scheduler.node_fit import Filter, FilterVerdict, FitCode


@dataclass(frozen=True, slots=True)
class ClaimRequirement:
    """A claim that a pod needs.

    Attributes
    ----------
    entry
        Entry of the pod's ``resourceClaims`` that names it.
    tracked
        The claim; not among the cluster's claims yet if it is new.
    is_new
        Whether it will be created for the pod from a template.
    """

    entry: str
    tracked: TrackedClaim
    is_new: bool = False

    @property
    def claim(self) -> ResourceClaim:
        return self.tracked.claim


def claim_requirements(pod: Pod, state: ClusterState) -> tuple[ClaimRequirement, ...] | FilterVerdict:
    """The claims in the order of ``spec.resourceClaims``, each once; or the verdict that rules out all nodes.

    A missing generated claim is the one that the claim controller would create from the template.
    """
    requirements: dict[ObjectKey, ClaimRequirement] = {}
    for reference in pod.claims:
        if not reference.is_needed:
            continue
        requirement = _resolve(pod, reference, state)
        if isinstance(requirement, FilterVerdict):
            return requirement
        requirements.setdefault(requirement.tracked.key, requirement)
    return next(_problems(pod, list(requirements.values()), state), tuple(requirements.values()))


def leftover_claim(pod: Pod, state: ClusterState) -> TrackedClaim | None:
    """A claim for the pod's extended resources from an earlier attempt."""
    for key in state.generated_claims[ObjectKey.of(pod)]:
        tracked = state.claims[key]
        if tracked.is_for_extended_resources and tracked.belongs_to(pod):
            return tracked
    return None


def _resolve(pod: Pod, reference: ClaimReference, state: ClusterState) -> ClaimRequirement | FilterVerdict:
    if reference.claim is not None:
        key = ObjectKey(pod.namespace, reference.claim)
        broken = state.broken.get((Kind.RESOURCE_CLAIM, key))
        if broken is not None:
            return _unknown(str(broken))
        tracked = state.claims.get(key)
        if tracked is not None and (reference.template is None or tracked.belongs_to(pod)):
            return ClaimRequirement(reference.name, tracked)
        if tracked is not None:
            return _refused(f"ResourceClaim {key} was not created for Pod {pod} (Pod is not owner)")
        if reference.template is None:
            return _refused(f'resourceclaim.resource.k8s.io "{reference.claim}" not found')
    for key in state.generated_claims[ObjectKey.of(pod)]:
        tracked = state.claims[key]
        if tracked.entry == reference.name and tracked.belongs_to(pod):
            return ClaimRequirement(reference.name, tracked)
    return _from_template(pod, reference, state)


def _from_template(pod: Pod, reference: ClaimReference, state: ClusterState) -> ClaimRequirement | FilterVerdict:
    key = ObjectKey(pod.namespace, reference.template or "")
    template = state.templates.get(key)
    if template is not None:
        return ClaimRequirement(reference.name, template.claim_for(pod, reference.name), is_new=True)
    broken = state.broken.get((Kind.RESOURCE_CLAIM_TEMPLATE, key))
    if broken is not None:
        return _unknown(str(broken))
    return _refused(
        f'pod "{pod}": ResourceClaim not created yet: '
        f'resourceclaimtemplate.resource.k8s.io "{reference.template}" not found'
    )


def _problems(pod: Pod, requirements: list[ClaimRequirement], state: ClusterState) -> Iterator[FilterVerdict]:
    """Problems of the claims that rule out all nodes."""
    for requirement in requirements:
        claim, status = requirement.claim, requirement.claim.status
        if requirement.tracked.is_deleted:
            yield _refused(f'resourceclaim "{claim.name}" is being deleted')
        if len(status.reserved_for) >= MAX_CONSUMERS and not requirement.tracked.is_reserved_for(pod):
            yield _refused(f'resourceclaim "{claim.name}" has {MAX_CONSUMERS} consumers already, the most it may have')
        if status.node_selector is not None and status.node_selector.problem:
            yield FilterVerdict(
                FitCode.ERROR, Filter.DYNAMIC_RESOURCES, (f"claim {claim}: {status.node_selector.problem}",)
            )
        if claim.is_allocated:
            continue
        for request in claim.requests:
            for alternative in request.alternatives:
                name = alternative.device_class_name
                if name in state.devices.classes:
                    continue
                broken = state.broken.get((Kind.DEVICE_CLASS, ObjectKey("", name)))
                if broken is not None:
                    yield _unknown(str(broken))
                where = f"{request.name}/{alternative.name}" if request.first_available else request.name
                yield _refused(f"request {where}: device class {name} does not exist")


def _refused(reason: str) -> FilterVerdict:
    return FilterVerdict(FitCode.UNRESOLVABLE, Filter.DYNAMIC_RESOURCES, (reason,))


def _unknown(reason: str) -> FilterVerdict:
    return FilterVerdict(FitCode.UNDECIDABLE, Filter.NOT_MODELLED, (reason,))
