"""What a spawner's settings say about the pod, as far as drivers care."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def tolerates(tolerations: object, taint: Mapping[str, str]) -> bool:
    """Whether a pod's tolerations put up with a node's taint (core/v1 ``Toleration.ToleratesTaint``)."""
    if not isinstance(tolerations, list | tuple):
        return False
    return any(_matches(each, taint) for each in tolerations if isinstance(each, Mapping))


def _matches(toleration: Mapping[str, Any], taint: Mapping[str, str]) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    exists = toleration.get("operator") == "Exists"
    if not toleration.get("key"):
        return exists
    if toleration["key"] != taint["key"]:
        return False
    return exists or (toleration.get("value") or "") == taint.get("value", toleration.get("value") or "")


def privileged_path(settings: Mapping[str, Any]) -> str:
    """The setting that makes the notebook's container privileged; empty if none does."""
    if settings.get("privileged"):
        return "privileged"
    for path in (
        "container_security_context",
        "extra_container_config.securityContext",
        "extra_container_config.security_context",
    ):
        context = _inside(settings, path)
        if isinstance(context, Mapping) and context.get("privileged"):
            return f"{path}.privileged"
    return ""


def visible_device_path(settings: Mapping[str, Any], variables: frozenset[str]) -> str:
    """The setting of an environment variable by which a container gets devices; empty if there is none."""
    environment = settings.get("environment")
    for name in sorted(variables) if isinstance(environment, Mapping) else ():
        if environment.get(name) not in ("", "void", "none", None):
            return f"environment.{name}"
    for index, entry in enumerate(_entries(settings)):
        if entry.get("name") in variables and entry.get("value") not in ("", "void", "none"):
            return f"extra_container_config.env[{index}].{entry['name']}"
    return ""


def may_run_as_another_than_root(settings: Mapping[str, Any]) -> bool:
    """Whether the notebook's container runs, or may run, as another user than root; images of Jupyter do."""
    users = [
        user
        for path in (
            "container_security_context",
            "extra_container_config.securityContext",
            "extra_pod_config.securityContext",
        )
        if (user := (_inside(settings, path) or {}).get("runAsUser")) is not None
    ]
    user = users[0] if users else settings.get("uid")
    return user != 0


def _entries(settings: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    entries = _inside(settings, "extra_container_config.env")
    return (each for each in entries if isinstance(each, Mapping)) if isinstance(entries, list | tuple) else iter(())


def _inside(settings: Mapping[str, Any], path: str) -> Any:
    value: Any = settings
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
