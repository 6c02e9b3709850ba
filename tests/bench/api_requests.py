"""Requests to the API server between a pod's creation and its binding, by its own audit log."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.cluster.control_plane import ControlPlane

__all__ = ["AuditedControlPlane", "breakdown"]

_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "verbs": ["watch", "list", "get"]},
        {"level": "Metadata", "resources": [{"group": ""}, {"group": "resource.k8s.io"}]},
    ],
}
_BYSTANDERS = ("nodes", "leases", "events")


class AuditedControlPlane(ControlPlane):
    """A control plane whose API server notes every writing request."""

    @property
    def audit_log(self) -> Path:
        return self.directory / "audit.log"

    def _launch(self, name: str, *arguments: str) -> None:
        if name == "kube-apiserver":
            policy = self.directory / "audit-policy.json"
            policy.write_text(json.dumps(_POLICY))
            arguments = (*arguments, f"--audit-policy-file={policy}", f"--audit-log-path={self.audit_log}")
        super()._launch(name, *arguments)


@dataclass(frozen=True, slots=True)
class _Request:
    """Begin and end in milliseconds."""

    begin: float
    end: float
    name: str
    subject: str

    @classmethod
    def of(cls, event: dict[str, Any]) -> _Request:
        subject = event.get("objectRef", {})
        resource = "/".join(filter(None, (subject.get("resource"), subject.get("subresource"))))
        agent = event["userAgent"].partition("/")[0]
        client = agent if agent.startswith("kube-") else "service or hub"
        begin, end = (
            datetime.fromisoformat(event[stamp]).timestamp() * 1000
            for stamp in ("requestReceivedTimestamp", "stageTimestamp")
        )
        return cls(begin, end, f"{event['verb']} {resource} by {client}", subject.get("name", ""))


def breakdown(log: Path, pods: Sequence[str]) -> Iterator[str]:
    """Lines about writing requests between the creation of each of these pods and its binding.

    Parameters
    ----------
    pods
        Names of pods that started in the same way, one by one.
    """
    requests = sorted(
        (_Request.of(json.loads(line)) for line in log.read_text().splitlines()), key=lambda each: each.begin
    )
    first = {each.subject: each for each in reversed(requests) if each.name.startswith("create pods by")}
    last = {each.subject: each for each in requests if each.name.startswith("create pods/binding")}
    began: dict[str, list[float]] = defaultdict(list)
    took: dict[str, list[float]] = defaultdict(list)
    whole: list[float] = []
    for pod in pods:
        if pod not in first or pod not in last:
            continue
        whole.append(last[pod].end - first[pod].begin)
        for each in _between(requests, first[pod].begin, last[pod].end):
            began[each.name].append(each.begin - first[pod].begin)
            took[each.name].append(each.end - each.begin)
    yield f"{len(whole)} pods, from the creation's arrival to the binding's answer {statistics.median(whole):.1f} ms"
    for name in sorted(began, key=lambda name: statistics.median(began[name])):
        if len(began[name]) > len(whole) / 2:
            yield f"  at {statistics.median(began[name]):5.1f} ms for {statistics.median(took[name]):4.1f} ms  {name}"


def _between(requests: Iterable[_Request], begin: float, end: float) -> Iterator[_Request]:
    for each in requests:
        if begin <= each.begin <= end and not any(f" {kind}" in each.name for kind in _BYSTANDERS):
            yield each
