"""The tables of docs/how-to/troubleshooting.md that are tables of the code: each sentence, its cause, and what to do.

``python -m tests.docs.symptoms`` writes them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from dra_spawner.dra.allocation.cause_text import DEVICE_CAUSES, CauseText, RefusalKind
from dra_spawner.kube.pod_ends import END_SENTENCES
from dra_spawner.simulator.refusal_text import CLOSED, DOUBTFUL, DRAINED, NO_MACHINE, NODE_CAUSES
from dra_spawner.simulator.scheduler.node_fit import Filter
from dra_spawner.spawner.progress.start_messages import EVENT_SENTENCES

PAGE: Final = Path(__file__).parents[2] / "docs" / "how-to" / "troubleshooting.md"
_MARKS: Final = "<!-- {name}, by python -m tests.docs.symptoms: begin -->\n"
_END: Final = "<!-- end -->\n"

_SLICES: Final = "`kubectl get resourceslices`, and the driver's pods"
_CHECK: Final = "`dra-spawner check` names the condition"
_GATE: Final = "switch the feature gate of Kubernetes on, or use another device class"
_AMOUNT: Final = "offer what devices have: `choices: {from_policy: {}}`"
_SMALLER: Final = "wait, add nodes, or offer a smaller choice. The page *Nodes* shows who uses the devices"

#: What an administrator does about a cause; causes with the same sentence have the advice of the first.
_ADVICE: Final[Mapping[object, str]] = {
    RefusalKind.NO_DEVICES: f"{_CHECK}. A driver publishes its devices a moment after its node's start; an autoscaler "
    "may need a `max` above 0",
    RefusalKind.POOL_INCOMPLETE: f"wait a moment. If it lasts: {_SLICES}",
    RefusalKind.POOL_INVALID: f"{_SLICES}: two slices of one pool contradict each other",
    RefusalKind.BINDING_CONDITIONS: _GATE,
    RefusalKind.UNKNOWN_CAPACITY: "correct the name of the capacity in the profile; `dra-spawner check` finds it",
    RefusalKind.CAPACITY_POLICY: _AMOUNT,
    RefusalKind.TOO_SMALL: _AMOUNT,
    RefusalKind.IN_USE: _SMALLER,
    RefusalKind.TAKEN_HERE: "ask for fewer devices, or add nodes with more of them",
    RefusalKind.CAPACITY: f"a smaller share fits earlier. Else {_SMALLER}",
    RefusalKind.TAINT: "`kubectl get resourceslices -o yaml` shows the taint. It ends with the maintenance, or the "
    "profile tolerates it",
    RefusalKind.CONSTRAINT: "wait, or relax the `constraints` of the profile",
    RefusalKind.LIMIT: "divide the profile's requests among several claims",
    Filter.NODE_UNSCHEDULABLE: "compare the profile's `node_selector` and `tolerations` with the nodes; `kubectl "
    "uncordon` where maintenance is over",
    Filter.NODE_PORTS: "`kubectl describe pod` has the scheduler's words",
    Filter.NODE_RESOURCES_FIT: "lower CPU or memory of the profile, or add nodes",
    Filter.DYNAMIC_RESOURCES: "`dra-spawner fit` says per node what is missing",
    CLOSED: "`kubectl uncordon` when the maintenance is over",
    DRAINED: "end the order on the page *Nodes*, or by `dra-spawner drain NAME --end`, when the maintenance is over",
    NO_MACHINE: "`kubectl get nodes`, and the autoscaler's limits",
    DOUBTFUL: "look at the driver's pod on the node; a device that is in use there is not published any more",
}

_OF_EVENTS: Final[Mapping[str, str]] = {
    "FailedScheduling": "the page of the service has the cause",
    "TriggeredScaleUp": "wait. If users read it often, add placeholders: [placeholders.md](../reference/placeholders.md)",
    "Scheduled": "nothing",
    "FailedMount": "`kubectl describe pod` names the volume",
    "Pulling": "add placeholders: servers then start on nodes that have the image. Or use the image puller",
    "Pulled": "nothing",
    "Failed": "`kubectl describe pod` has the step, often the name of an image",
    "Started": "nothing. If it stays: the container's log",
}

_OF_ENDS: Final[Mapping[str, str]] = {
    "DeletionByDeviceTaintManager": "the driver's pod on the node; the taint in the ResourceSlice",
    "DeletionByPodGC": "why the node went: autoscaler, spot instance, crash",
    "DeletionByTaintManager": "the taints of the node",
    "EvictionByEvictionAPI": "nothing, if you drained the node",
    "PreemptionByScheduler": "priorities of other workloads",
    "TerminationByKubelet": "the kubelet's log; memory limits of the profile",
    "Evicted": "memory limits of the profile; disk space of the node",
    "NodeAffinity": "who changed the node's labels",
    "NodeLost": "the node",
    "NodeShutdown": "nothing, if you shut it down",
}


def tables() -> dict[str, str]:
    """Each table by its name."""
    return {"causes": _causes(), "events": _events(), "ends": _ends()}


def page_with_tables(text: str) -> str:
    """The page with the tables of today between their marks."""
    for name, table in tables().items():
        begin = _MARKS.format(name=name)
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(_END)
        text = f"{before}{begin}\n{table}\n{_END}{after}"
    return text


def _causes() -> str:
    found: dict[str, list[object]] = {}
    texts: dict[str, CauseText] = {}
    own = {CLOSED: CLOSED, DRAINED: DRAINED, NO_MACHINE: NO_MACHINE, DOUBTFUL: DOUBTFUL}
    for key, text in [*DEVICE_CAUSES.items(), *NODE_CAUSES.items(), *own.items()]:
        found.setdefault(text.now, []).append(key)
        texts.setdefault(text.now, text)
    rows = []
    for now, keys in found.items():
        details = dict.fromkeys(_detail(each) for each in keys)
        rows.append((_quoted(now), _quoted(texts[now].never), "; ".join(filter(None, details)), _ADVICE[keys[0]]))
    return _table(
        ("while it waits", "after *It can never start:*", "detail, on the page and in the log", "what to do"), rows
    )


def _detail(key: object) -> str:
    match key:
        case RefusalKind():
            return _ellipsis(DEVICE_CAUSES[key].detail)
        case Filter.NOT_MODELLED:
            return "a condition that is not known here"
        case Filter():
            return f"the scheduler's `{key}`"
    return ""


def _events() -> str:
    rows = [
        (_quoted(text), _names(EVENT_SENTENCES, text), _first(_OF_EVENTS, EVENT_SENTENCES, text))
        for text in _unique(EVENT_SENTENCES)
    ]
    return _table(("sentence", "reason of the event", "what to do"), rows)


def _ends() -> str:
    rows = [
        (_quoted(text), _names(END_SENTENCES, text), _first(_OF_ENDS, END_SENTENCES, text))
        for text in _unique(END_SENTENCES)
    ]
    return _table(("sentence", "reason of the condition or the pod", "what to look at"), rows)


def _unique(sentences: Mapping[str, str]) -> Iterable[str]:
    return dict.fromkeys(sentences.values())


def _names(sentences: Mapping[str, str], text: str) -> str:
    return ", ".join(f"`{name}`" for name, each in sentences.items() if each == text)


def _first(advice: Mapping[str, str], sentences: Mapping[str, str], text: str) -> str:
    return advice[next(name for name, each in sentences.items() if each == text)]


def _quoted(text: str) -> str:
    return f'"{_ellipsis(text)}"'


def _ellipsis(text: str) -> str:
    return re.sub(r"\{\w+\}", "…", text)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in [head, ("---",) * len(head), *rows])


if __name__ == "__main__":
    PAGE.write_text(page_with_tables(PAGE.read_text()))
    sys.stdout.write(f"{PAGE}: written\n")
