"""Settings of ``dra-spawner service`` that it refuses, that lack what they need, or that the hub's contradict."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from difflib import get_close_matches
from typing import Any, Final
from urllib.parse import urlsplit

from dra_spawner.commands.checking.hub_setting_findings import path_of_setting, start_timeout
from dra_spawner.commands.checking.trait_values import trait_problems
from dra_spawner.commands.hub_files.profiles_found import ProfilesFound
from dra_spawner.commands.hub_files.service_chart import ServiceValues
from dra_spawner.commands.hub_files.values_tree import at
from dra_spawner.common.plain_passwords import plain_passwords
from dra_spawner.dra.model.claims import ResourceClaim
from dra_spawner.dra.model.decoding import ObjectError
from dra_spawner.dra.scheduler_rules import DEFAULT_RULES
from dra_spawner.fairness.budget_settings import read_budgets
from dra_spawner.fairness.budgets import BudgetPolicy, Per
from dra_spawner.fairness.device_hours import ALL_DRIVERS
from dra_spawner.fairness.idle.policy import ALL_PROFILES, IdleSettings
from dra_spawner.fairness.idle.settings import read_idle_settings
from dra_spawner.profiles.choices import ListedChoice
from dra_spawner.profiles.findings import Finding, Level
from dra_spawner.profiles.lint import hub_rules
from dra_spawner.profiles.syntax.settings_reader import SettingsError
from dra_spawner.simulator.packing.packing import packing_problem

_RULE: Final = hub_rules.SERVICE_SETTINGS
_HOLD: Final = 300
_KEPT_DAYS: Final = 365
#: Characters of a name in a message.
_LONGEST: Final = 80
_PORTS: Final = {"http": 80, "https": 443}
#: What the chart lets the service reach where its values do not say it.
_OPEN_PORTS: Final = (443, 6443)


def service_setting_findings(
    found: ProfilesFound, listed: Sequence[ListedChoice], drivers: Collection[str] | None
) -> Iterator[Finding]:
    """Findings about the service beside a hub, or alone.

    Parameters
    ----------
    drivers
        Drivers of the cluster's devices; None if they are not known.
    """
    service = found.service
    if service is None:
        return
    # Code of the service is not run: it may set anything.
    is_complete = not at(service.given, "service", "extraConfig")
    refused = list(_refused(service))
    yield from (_RULE.finding(path, message) for path, message in refused)
    wrong = {path.removeprefix(service.path).lstrip(".").partition(".")[0] for path, _ in refused}
    settings = {name: value for name, value in service.settings.items() if name not in wrong}
    idle, budgets, is_cut = _idle(settings), _budgets(settings), "budgets" in wrong
    profiles = {each.profile for each in listed if each.profile} if found.profile_list else set()
    yield from _warned(_names(service, idle, budgets, profiles, drivers))
    yield from _warned(_times(service, found, idle, listed))
    if settings.get("pack_devices") is True:
        yield from _not_packed(service, listed)
    if is_complete:
        needs = _needs(service, settings, idle, budgets)
        yield from _warned(
            (path, message) for path, message in needs if not (is_cut and path.endswith("enforce_budgets"))
        )
    if found.chart is not None:
        yield from _warned(_scopes(service, found, idle, budgets, is_enforced=settings.get("enforce_budgets") is True))
        if is_complete and "tickets" not in wrong:
            yield from _warned(_both(service, settings, found))


def _warned(found: Iterator[tuple[str, str]]) -> Iterator[Finding]:
    return (_RULE.finding(path, message, Level.WARNING) for path, message in dict.fromkeys(found))


def _idle(settings: Mapping[str, Any]) -> IdleSettings:
    try:
        return read_idle_settings(settings.get("idle_servers") or {})
    except SettingsError:
        return IdleSettings()


def _budgets(settings: Mapping[str, Any]) -> BudgetPolicy:
    try:
        return read_budgets(settings.get("budgets") or {}).policy
    except SettingsError:
        return BudgetPolicy()


def _refused(service: ServiceValues) -> Iterator[tuple[str, str]]:
    """Settings with which the service does not start, and those that it does not have."""
    configured = at(service.given, "service", "config")
    if configured is not None and not isinstance(configured, Mapping):
        yield service.path, "is no mapping of settings"
        return
    settings = service.settings
    if not settings:
        return
    # Imported here, as it loads the service.
    from dra_spawner.service.application import DRASpawnerService

    known = DRASpawnerService.class_traits(config=True)
    for name, value in settings.items():
        is_own = isinstance(configured, Mapping) and name in configured
        path = f"{service.path}.{str(name)[:_LONGEST]}" if is_own else f"{service.prefix}{_OUTSIDE.get(name, name)}"
        if name not in known:
            meant = get_close_matches(str(name)[:_LONGEST], known, 1)
            yield path, f"is not a setting of the service{f'; did you mean {meant[0]}' if meant else ''}"
            continue
        for problem in trait_problems(DRASpawnerService, name, value, path):
            yield problem.path, problem.message
    if service.is_chart:
        for name, message in plain_passwords(settings):
            yield f"{service.prefix}{'' if '.' in name else 'service.config.'}{name}", message


#: Where the chart has settings that are none of ``service.config``.
_OUTSIDE: Final = {"placeholders": "placeholders.targets", "user_namespaces": "userNamespaces"}


def _names(
    service: ServiceValues,
    idle: IdleSettings,
    budgets: BudgetPolicy,
    profiles: Collection[str],
    drivers: Collection[str] | None,
) -> Iterator[tuple[str, str]]:
    """Profiles and drivers that are named and do not exist."""
    if profiles:
        for name in idle.policies:
            if name != ALL_PROFILES and name not in profiles:
                path = f"{service.path}.idle_servers.policies.{name[:_LONGEST]}"
                yield path, f"names no profile of the hub{_meant(name, profiles)}"
        for name in budgets.prices:
            if name.partition("/")[0] not in profiles and not _is_driver(name, drivers):
                path = f"{service.path}.budgets.prices.{name[:_LONGEST]}"
                yield path, f"names no profile of the hub and no driver{_meant(name, profiles)}"
    for place, name in (
        *(("budgets", each) for each in budgets.drivers if each != ALL_DRIVERS),
        *(
            (f"idle_servers.prometheus.queries[{number}].drivers", each)
            for number, query in enumerate(idle.prometheus.queries)
            for each in query.drivers
        ),
    ):
        if not _is_driver(name, drivers):
            where = "of the cluster's devices" if drivers is not None else "of devices, such as gpu.nvidia.com"
            yield f"{service.path}.{place}", f"{name[:_LONGEST]} is no driver {where}{_meant(name, drivers or ())}"


def _is_driver(name: str, drivers: Collection[str] | None) -> bool:
    """Whether devices have this driver; without a cluster, whether they may: drivers are named like hosts."""
    return name in drivers if drivers is not None else "." in name


def _meant(name: str, known: Collection[str]) -> str:
    near = get_close_matches(name[:_LONGEST], known, 1)
    return f"; did you mean {near[0]}" if near else f"; there are: {', '.join(sorted(known)[:10])}" if known else ""


def _times(
    service: ServiceValues, found: ProfilesFound, idle: IdleSettings, listed: Sequence[ListedChoice]
) -> Iterator[tuple[str, str]]:
    """Times that contradict one another."""
    choices = [each.choice for each in listed if each.choice is not None]
    for name, policy in idle.policies.items():
        path = f"{service.path}.idle_servers.policies.{name[:_LONGEST]}"
        if policy.notice > policy.after:
            yield (
                f"{path}.notice_minutes",
                f"the warning of {_minutes(policy.notice)} is longer than the idle time of {_minutes(policy.after)} "
                "before it; allowed: at most after_minutes",
            )
        for choice in choices:
            if idle.policy_of(choice.profile) is not policy:
                continue
            for setting, what in (("devices_lifetime", "ends"), ("devices_idle_timeout", "is stopped unwarned")):
                seconds = choice.settings.get(setting)
                if isinstance(seconds, int) and 0 < seconds <= (policy.after + policy.notice).total_seconds():
                    yield (
                        path,
                        f"never stops a server of {choice.profile or 'the hub'}, which {what} after {seconds} s "
                        f"({setting}), before the {_minutes(policy.after + policy.notice)} of this policy",
                    )
    hold = service.settings.get("ticket_hold_seconds", _HOLD)
    limit = start_timeout(found)
    if found.chart is not None and service.settings.get("tickets") is True and isinstance(hold, int) and hold > limit:
        yield (
            f"{service.path}.ticket_hold_seconds",
            f"a free device is held for {hold} s, and a start that waits for it gives up after {limit} s "
            "(start_timeout); allowed: a shorter hold, or a longer start_timeout",
        )


def _minutes(time: timedelta) -> str:
    return f"{time / timedelta(minutes=1):g} min"


def _needs(
    service: ServiceValues, settings: Mapping[str, Any], idle: IdleSettings, budgets: BudgetPolicy
) -> Iterator[tuple[str, str]]:
    """Settings of the service without what they need there."""
    path, days = service.path, _kept_days(settings)
    if settings.get("enforce_budgets") is True and not budgets.drivers:
        yield f"{path}.enforce_budgets", "has no effect, as there are no budgets; allowed: with budgets"
    if budgets.drivers and not days:
        yield f"{path}.budgets", "need the history, which records nothing with keep_days: 0"
    longest = max((each.window for each in (*budgets.budgets, *budgets.for_others)), default=timedelta(0))
    if days and longest > timedelta(days=days):
        yield (
            f"{path}.budgets",
            f"a window of {longest.days} days is longer than the history, which is kept for {days} days; allowed: at "
            "most history.keepDays",
        )
    if budgets.drivers and days and not _has_database(service, settings):
        yield (
            f"{path}.budgets",
            "the history is in memory, so all use is forgotten with each restart; allowed: with history.url, or "
            "history.persistence.enabled: true",
        )
    if settings.get("tickets") is True and not service.has_placeholders:
        yield f"{path}.tickets", "has no effect without the rights of placeholders.enabled: true"
    elif settings.get("tickets") is True and settings.get("user_namespaces") is True:
        yield f"{path}.tickets", "has no effect with userNamespaces: no device can be held for a server there"
    if not settings.get("placeholders") and settings.get("tickets") is not True:
        for name in ("pack_devices", "enforce_budgets", "idle_servers"):
            if settings.get(name):
                yield (
                    f"{path}.{name}",
                    "has no effect without placeholders.enabled: true and a target of some choice, at least {min: 0}",
                )
    gates = settings.get("kubernetes_feature_gates")
    if settings.get("pack_devices") is True and at(gates, "DRAPrioritizedList") is False:
        yield f"{path}.pack_devices", "has no effect with the feature gate DRAPrioritizedList off"
    yield from _egress(service, idle)


def _not_packed(service: ServiceValues, listed: Sequence[ListedChoice]) -> Iterator[Finding]:
    """Choices whose devices are given as without the setting, whatever the devices are."""
    found: dict[str, str] = {}
    for choice in (each.choice for each in listed if each.choice is not None):
        try:
            claims = [
                ResourceClaim.from_json({"metadata": {"name": name}, "spec": spec})
                for name, spec in choice.plan.specs.items()
            ]
        except ObjectError:
            continue
        problem = packing_problem(claims, DEFAULT_RULES)
        if not problem and any(request.first_available for claim in claims for request in claim.requests):
            problem = "a request has a list of its own"
        if problem:
            found.setdefault(choice.profile, problem)
    for profile, problem in found.items():
        message = f"does nothing for {profile or 'these claims'}: {problem}"
        yield _RULE.finding(f"{service.path}.pack_devices", message, Level.INFO)


def _kept_days(settings: Mapping[str, Any]) -> int:
    days = at(settings, "history", "keep_days")
    return days if isinstance(days, int) and not isinstance(days, bool) else _KEPT_DAYS


def _has_database(service: ServiceValues, settings: Mapping[str, Any]) -> bool:
    return bool(at(settings, "history", "url")) or at(service.given, "history", "persistence", "enabled") is True


def _egress(service: ServiceValues, idle: IdleSettings) -> Iterator[tuple[str, str]]:
    """Prometheus behind the chart's own network policy."""
    try:
        address = urlsplit(idle.prometheus.url)
        port = address.port or _PORTS.get(address.scheme)
    except ValueError:
        yield f"{service.path}.idle_servers.prometheus.url", "has no usable port"
        return
    policy = at(service.given, "networkPolicy")
    if port is None or not service.is_chart or at(policy, "enabled") is False:
        return
    allowed = at(policy, "apiServerPorts")
    further = at(policy, "extraEgress")
    if port in (allowed if isinstance(allowed, list) else _OPEN_PORTS):
        return
    for rule in further if isinstance(further, list) else ():
        given = at(rule, "ports")
        ports = given if isinstance(given, list) else ()
        if not ports or any(at(each, "port") in (port, None) for each in ports if isinstance(each, Mapping)):
            return
    yield (
        f"{service.path}.idle_servers.prometheus.url",
        f"the chart's network policy does not let the service reach port {port}; allowed: with "
        f"{service.prefix}networkPolicy.extraEgress for this port",
    )


def _scopes(
    service: ServiceValues, found: ProfilesFound, idle: IdleSettings, budgets: BudgetPolicy, *, is_enforced: bool
) -> Iterator[tuple[str, str]]:
    """Scopes that the service's role in the hub lacks."""
    assert found.chart is not None
    wanted: dict[str, str] = {}
    if idle.is_on:
        wanted["read:servers"] = "idle_servers"
    if idle.policies:
        wanted["delete:servers"] = "idle_servers.policies"
    if any(each.per is Per.GROUP for each in budgets.budgets) and is_enforced:
        wanted |= dict.fromkeys(("list:groups", "read:groups"), "budgets")
    has = _scopes_of(service.name, at(found.chart.values, "hub", "loadRoles")) if wanted else set()
    for scope, setting in wanted.items():
        if scope not in has:
            yield (
                f"{service.path}.{setting}",
                f"needs the scope {scope}, which no role of {found.chart.prefix}hub.loadRoles gives the service "
                f"{service.name}; allowed: a role with scopes: [{scope}] and services: [{service.name}]",
            )


def _scopes_of(name: str, roles: object) -> set[str]:
    """Scopes of a service, with the ones that they contain."""
    # Imported here, as it loads JupyterHub.
    from jupyterhub.scopes import scope_definitions

    pending = [
        scope
        for role in (roles.values() if isinstance(roles, Mapping) else ())
        for services in [at(role, "services")]
        if isinstance(services, list) and name in services
        for scopes in [at(role, "scopes")]
        for scope in (scopes if isinstance(scopes, list) else ())
        if isinstance(scope, str)
    ]
    known: set[str] = set()
    while pending:
        scope = pending.pop()
        if scope not in known:
            known.add(scope)
            pending += at(scope_definitions.get(scope), "subscopes") or ()
    return known


def _both(service: ServiceValues, settings: Mapping[str, Any], found: ProfilesFound) -> Iterator[tuple[str, str]]:
    """Settings that hub and service must have alike."""
    has_hub, has_service = found.settings.get("tickets") is True, settings.get("tickets") is True
    if has_hub and not has_service:
        yield path_of_setting(found, "tickets"), f"has no effect without {service.path}.tickets: true"
    elif has_service and not has_hub:
        where = path_of_setting(found, "tickets")
        yield f"{service.path}.tickets", f"no user can join the queue without {where}: true"
    for name in ("tickets_namespace", "shapes_config_map", "kubernetes_feature_gates"):
        ours, theirs = settings.get(name), found.settings.get(name)
        if (ours or theirs) and ours != theirs and (name != "tickets_namespace" or has_hub):
            yield f"{service.path}.{name}", f"differs from {path_of_setting(found, name)}; allowed: the same in both"
    wanted = found.settings.get("placeholder_service")
    if isinstance(wanted, str) and wanted and wanted != service.name:
        where = path_of_setting(found, "placeholder_service")
        yield (
            where,
            f"names the service {wanted[:_LONGEST]}; the chart has {service.name} ({service.prefix}hub.serviceName)",
        )
