"""Parts of Kubernetes objects that several rules read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.versions import minor_version

_CHART: Final = "helm.sh/chart"


def name_of(obj: JsonObject) -> str:
    """The object's name."""
    return str((obj.get("metadata") or {}).get("name") or "")


def labels_of(obj: JsonObject) -> Mapping[str, str]:
    """The object's labels."""
    return (obj.get("metadata") or {}).get("labels") or {}


def component_of(obj: JsonObject) -> str:
    """The part of zero-to-jupyterhub that the object is, by its label."""
    return labels_of(obj).get(names.COMPONENT, "")


def pod_spec(obj: JsonObject) -> JsonObject:
    """The spec of a pod, or of the pods of a Deployment or DaemonSet."""
    spec = obj.get("spec") or {}
    template = spec.get("template")
    return ((template.get("spec") or {}) if template else spec) or {}


def hub_deployment(deployments: Iterable[JsonObject] | None) -> JsonObject | None:
    """The hub's Deployment, or its pod among pods; None if there is none."""
    return next((each for each in deployments or () if component_of(each) == "hub"), None)


def service_deployment(deployments: Iterable[JsonObject] | None) -> JsonObject | None:
    """The service's Deployment, or a pod of it among pods; None if there is none."""
    return next((each for each in deployments or () if is_ours(each)), None)


def is_ours(obj: JsonObject) -> bool:
    """Whether the object is the service's, by its label."""
    return labels_of(obj).get(names.APPLICATION) == names.SERVICE


def environment_of(obj: JsonObject) -> Mapping[str, str]:
    """The variables with values of the first container."""
    containers = pod_spec(obj).get("containers") or [{}]
    return {each["name"]: each.get("value") or "" for each in containers[0].get("env") or () if "name" in each}


def flags_of(pod: JsonObject) -> Mapping[str, str]:
    """The flags of the first container's command line, without hyphens; the last of equal ones counts."""
    containers = pod_spec(pod).get("containers") or [{}]
    words = [*(containers[0].get("command") or ()), *(containers[0].get("args") or ())]
    return dict(_flags(words))


def _flags(words: list[Any]) -> Iterator[tuple[str, str]]:
    for number, word in enumerate(map(str, words)):
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            after = str(words[number + 1]) if number + 1 < len(words) else ""
            yield name, value if equals else ("" if after.startswith("--") else after)


def version_of(text: object) -> tuple[int, int] | None:
    """Major and minor of a version such as ``v1.36.3``; None if it is none."""
    return minor_version(text) if isinstance(text, str) else None


def image_version(obj: JsonObject) -> tuple[int, int] | None:
    """The version in the tag of the first container's image; None if the tag is none."""
    containers = pod_spec(obj).get("containers") or [{}]
    return version_of(str(containers[0].get("image") or "").partition("@")[0].rpartition(":")[2])


def chart_of(obj: JsonObject) -> str:
    """The Helm chart of an object and its version, as ``jupyterhub-4.4.0``; empty without the label."""
    return labels_of(obj).get(_CHART) or labels_of(obj).get("chart") or ""


def tolerates(tolerations: Iterable[JsonObject], taint: JsonObject) -> bool:
    """Whether one of the tolerations is for this taint (``v1.Toleration.ToleratesTaint``)."""
    return any(
        each.get("effect") in (None, "", taint.get("effect"))
        and (not each.get("key") or each.get("key") == taint.get("key"))
        and (each.get("operator") == "Exists" or (each.get("value") or "") == (taint.get("value") or ""))
        for each in tolerations
    )
