"""Placeholders whose container never runs, by what the kubelet says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dra_spawner import names
from dra_spawner.common.counted_text import counted, listed
from dra_spawner.common.json_types import JsonObject
from dra_spawner.doctor.facts import DoctorFacts
from dra_spawner.doctor.findings import DoctorFinding, DoctorRule, Severity, Subject, rules_of
from dra_spawner.doctor.objects import component_of, labels_of, name_of, pod_spec
from dra_spawner.dra.model.decoding import Reader
from dra_spawner.simulator.model.pod_parts import waits_because

PLACEHOLDER_DOES_NOT_RUN: Final = DoctorRule(
    "placeholder-does-not-run",
    Subject.SETTINGS,
    (Severity.ERROR, Severity.WARNING),
    "the container of a placeholder does not run, for example because its image cannot be pulled",
    "placeholder_image and placeholder_image_pull_secrets of the service, or what the finding says",
)

PLACEHOLDER_RULES: Final = rules_of(globals())

_MAX_NAMED: Final = 3
#: The kubelet's reasons that are about the image (``pkg/kubelet/images/types.go``, ``pkg/kubelet/container``).
_IMAGE: Final = frozenset(
    {
        "ErrImageNeverPull",
        "ErrImagePull",
        "ErrImageInspect",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)


def placeholder_findings(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    """A finding for each reason of the kubelet and image; an error if no placeholder runs.

    The kubelet's reasons about one image alternate.
    """
    waiting: dict[tuple[str, str], list[tuple[JsonObject, str]]] = {}
    runs = False
    for pod in facts.hub_namespace_pods or ():
        if component_of(pod) != names.PLACEHOLDER or labels_of(pod).get(names.MANAGED_BY) != names.MANAGER:
            continue
        status = pod.get("status") or {}
        because = waits_because(Reader.root(status, "status"))
        runs = runs or (status.get("phase") == "Running" and not because)
        if because:
            image = str((pod_spec(pod).get("containers") or [{}])[0].get("image") or "")
            reason = because.partition(":")[0]
            waiting.setdefault(("" if reason in _IMAGE else reason, image), []).append((pod, because))
    for (reason, image), found in sorted(waiting.items()):
        first, because = max(found, key=lambda each: len(each[1]))
        nodes = sorted({str(pod_spec(pod).get("nodeName") or "") for pod, _ in found})
        one = len(found) == 1
        felt = "others run, and servers there start later" if runs else "none runs, so each server starts later"
        yield PLACEHOLDER_DOES_NOT_RUN.finding(
            f"{counted(len(found), 'placeholder')} with image {image} {'does' if one else 'do'} not run on "
            f"{listed(nodes, _MAX_NAMED)}: {felt}. The kubelet says: {because.rstrip('.')}.",
            _fix(reason, facts.namespace, name_of(first)),
            f"Pod {name_of(first)}",
            Severity.WARNING if runs else Severity.ERROR,
        )


def _fix(reason: str, namespace: str, pod: str) -> str:
    key = "In the values of the chart dra-spawner: service: {config: {placeholder_image: …}}"
    if not reason:
        return (
            f"{key}, an image that these nodes can pull, such as {names.PAUSE_IMAGE} or a copy of it; a private "
            "registry needs placeholder_image_pull_secrets, too. Present placeholders are then replaced."
        )
    return (
        f"kubectl describe pod --namespace {namespace} {pod} has the rest. If it is about the image: {key}, one whose "
        f"program only waits and runs as any user, such as {names.PAUSE_IMAGE}."
    )
