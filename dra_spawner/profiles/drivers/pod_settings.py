"""What a spawner's settings say about the pod, as far as drivers care."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def tolerates(tolerations: object, taint: Mapping[str, str]) -> bool:
    """Whether a pod's tolerations put up with a node's taint (core/v1 ``Toleration.ToleratesTaint``).

    A taint without ``value`` is one of any value.
    """
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
    return exists or "value" not in taint or (toleration.get("value") or "") == (taint["value"] or "")


def privileged_path(settings: Mapping[str, Any]) -> str:
    """The setting that makes the notebook's container privileged; empty if none does."""
    if settings.get("privileged"):
        return "privileged"
    return next((f"{path}.privileged" for path, each in _security_contexts(settings) if each.get("privileged")), "")


def visible_device_path(settings: Mapping[str, Any], variables: frozenset[str]) -> str:
    """The setting of an environment variable by which a container gets devices; empty if there is none."""
    environment = settings.get("environment")
    if isinstance(environment, Mapping):
        for name in sorted(variables):
            if environment.get(name) not in ("", "void", "none", None):
                return f"environment.{name}"
    for index, entry in enumerate(_entries(settings)):
        if entry.get("name") in variables and entry.get("value") not in ("", "void", "none"):
            return f"extra_container_config.env[{index}].{entry['name']}"
    return ""


def may_run_as_another_than_root(settings: Mapping[str, Any]) -> bool:
    """Whether the notebook's container runs, or may run, as another user than root; images of Jupyter do."""
    contexts = [context for _, context in _security_contexts(settings)]
    contexts += [_inside(settings, path) for path in ("extra_pod_config.securityContext", "pod_security_context")]
    users = (context.get("runAsUser") for context in contexts if isinstance(context, Mapping))
    return next((user for user in users if user is not None), settings.get("uid")) != 0


def has_capability(settings: Mapping[str, Any], name: str) -> bool:
    """Whether the notebook's container is given a capability of Linux, or all of them."""
    if privileged_path(settings):
        return True
    added = (_inside(context, "capabilities.add") or () for _, context in _security_contexts(settings))
    return any(each in (name, f"CAP_{name}", "ALL") for names in added for each in names)


def _security_contexts(settings: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for path in ("container_security_context", "extra_container_config.securityContext"):
        context = _inside(settings, path)
        if isinstance(context, Mapping):
            yield path, context


def _entries(settings: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    entries = _inside(settings, "extra_container_config.env")
    return (each for each in entries if isinstance(each, Mapping)) if isinstance(entries, list | tuple) else iter(())


def _inside(settings: Mapping[str, Any], path: str) -> Any:
    value: Any = settings
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
