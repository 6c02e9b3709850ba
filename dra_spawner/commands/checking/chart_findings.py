"""What the values of a hub make impossible for the profiles in them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from dra_spawner.commands.hub_files.profiles_found import ProfilesFound
from dra_spawner.commands.hub_files.values_tree import at
from dra_spawner.profiles.choices import Choice, ListedChoice
from dra_spawner.profiles.findings import Finding, Level
from dra_spawner.profiles.lint import hub_rules

_USER_SCHEDULER: Final = "user-scheduler"


def chart_findings(found: ProfilesFound, listed: Sequence[ListedChoice]) -> Iterator[Finding]:
    """Findings about the hub around the profiles; none where no choice asks for devices."""
    choices = [each.choice for each in listed if each.choice is not None and each.choice.plan.claims]
    if not choices or found.spawner is None:
        return
    yield from _spawner_class(found)
    if found.chart is not None:
        yield from _user_scheduler(found, choices)
        yield from _placeholders(found)
        yield from _puller(found, choices)


def _spawner_class(found: ProfilesFound) -> Iterator[Finding]:
    spawner = found.spawner
    if spawner is None or spawner.is_ours:
        return
    prefix = found.chart.prefix if found.chart is not None else ""
    path = f"{prefix}hub.config.JupyterHub.spawner_class" if found.chart is not None else "c.JupyterHub.spawner_class"
    is_unread = any(each.rule == hub_rules.UNREAD_CODE.name for each in found.findings)
    remedy = "call setup(c) of dra_spawner.hub in it, or set dra_spawner.spawner.DRASpawner or a class derived from it"
    if spawner.is_ours is None:
        if spawner.name:
            why = f" ({spawner.problem})" if spawner.problem else ""
            message = f"{spawner.name} could not be looked at{why}; it must be derived from DRASpawner"
            yield hub_rules.SPAWNER_CLASS.finding(path, message, Level.WARNING)
    elif spawner.name:
        by = f"; {prefix}{spawner.set_by} sets it last" if spawner.set_by else ""
        message = f"{spawner.name} is no DRASpawner, so users get no devices{by}; {remedy}"
        yield hub_rules.SPAWNER_CLASS.finding(path, message, Level.WARNING if is_unread else Level.ERROR)
    elif not is_unread:
        message = f"is not set here, and the default is no DRASpawner, with which users get no devices; {remedy}"
        yield hub_rules.SPAWNER_CLASS.finding(path, message, Level.WARNING)


def _user_scheduler(found: ProfilesFound, choices: Sequence[Choice]) -> Iterator[Finding]:
    assert found.chart is not None
    places = {place: None for each in choices for name, place in [_scheduler(each)] if name.endswith(_USER_SCHEDULER)}
    if not places:
        return
    path = f"{found.chart.prefix}scheduling.userScheduler.enabled"
    effect = (
        "up to chart 4.4 the chart's scheduler binds these pods to nodes without their devices, and servers never start"
    )
    if not at(found.chart.values, "scheduling", "userScheduler", "enabled"):
        for place in places:
            yield hub_rules.USER_SCHEDULER.finding(place, f"names the chart's scheduler: {effect}")
    elif at(found.chart.given, "scheduling", "userScheduler", "enabled") is None:
        message = f"is not set here, and the chart's default is true: {effect}; set it to false"
        yield hub_rules.USER_SCHEDULER.finding(path, message, Level.WARNING)
    else:
        yield hub_rules.USER_SCHEDULER.finding(path, f"is true: {effect}; set it to false")


def _scheduler(choice: Choice) -> tuple[str, str]:
    """Name of the scheduler of a choice's pods, and where it is set."""
    more = choice.settings.get("extra_pod_config")
    for name in ("schedulerName", "scheduler_name"):
        if isinstance(found := at(more, name), str):
            return found, choice.path_of_setting(f"extra_pod_config.{name}")
    found = choice.settings.get("scheduler_name")
    return found if isinstance(found, str) else "", choice.path_of_setting("scheduler_name")


def _placeholders(found: ProfilesFound) -> Iterator[Finding]:
    assert found.chart is not None
    settings = at(found.chart.values, "scheduling", "userPlaceholder")
    replicas = at(settings, "replicas")
    if at(settings, "enabled") and isinstance(replicas, int) and replicas > 0:
        yield hub_rules.CHART_PLACEHOLDERS.finding(
            f"{found.chart.prefix}scheduling.userPlaceholder",
            f"{replicas} placeholders of the chart have no devices, so a device is not free sooner; dra-spawner's own "
            "service has placeholders with devices",
        )


def _puller(found: ProfilesFound, choices: Sequence[Choice]) -> Iterator[Finding]:
    assert found.chart is not None
    values, prefix = found.chart.values, found.chart.prefix
    if not any(at(values, "prePuller", each, "enabled") for each in ("hook", "continuous")):
        return
    places = (
        ("scheduling", "userPods", "tolerations"),
        ("singleuser", "extraTolerations"),
        ("prePuller", "extraTolerations"),
    )
    pullers = [each for place in places for each in _list(at(values, *place))]
    missing: dict[str, str] = {}
    for choice in choices:
        for toleration in _list(choice.settings.get("tolerations")):
            key = at(toleration, "key")
            if isinstance(key, str) and key and not any(at(each, "key") in (key, None, "") for each in pullers):
                missing.setdefault(key, choice.path_of_setting("tolerations"))
    for key, path in missing.items():
        yield hub_rules.PULLER.finding(
            path,
            f"servers tolerate the taint {key}, and the image puller does not: the first server on such a node waits "
            f"for its image; add it to {prefix}prePuller.extraTolerations",
        )


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []
