"""The check of all profiles against the cluster when a hub starts; after it, each start is checked, too."""

from __future__ import annotations

from dra_spawner.dra.scheduler_rules import inexact_rules
from dra_spawner.profiles.choices import list_choices
from dra_spawner.profiles.drivers import configured_drivers
from dra_spawner.profiles.findings import Level
from dra_spawner.profiles.lint import unknown_rules
from dra_spawner.profiles.profile_list import offered_profiles
from dra_spawner.spawner.devices.checked_facts import CheckedFacts
from dra_spawner.spawner.hub_parts.hub_wide import this_hub
from dra_spawner.spawner.server_context import ServerContext
from dra_spawner.spawner.steps.cluster_check import checks_of_hub, values_for_rules
from dra_spawner.versions import KUBERNETES, version_problem


def begin_checking(server: ServerContext) -> None:
    """Check all profiles against the cluster in the background; findings go to the log.

    After this call, every start in this hub is checked, too.
    """
    spawner = server.spawner
    facts = CheckedFacts(
        server.devices,
        server.servers_namespace,
        server.log,
        nodes_may_be_added=spawner.nodes_may_be_added,
        drivers_prepare_for=configured_drivers(spawner.drivers_prepare_for),
        gates=spawner.kubernetes_feature_gates,
        ignored=spawner.ignored_profile_rules,
    )
    checks_of_hub().facts = facts
    for sentence in unknown_rules(spawner.ignored_profile_rules):
        server.log.warning("ignored_profile_rules: %s", sentence)
    this_hub().begin(_check_all(server, facts), "check of profiles")


async def _check_all(server: ServerContext, facts: CheckedFacts) -> None:
    spawner = server.spawner
    try:
        settings = values_for_rules(spawner)
        is_function = callable(spawner.profile_list)
        profiles = None if is_function else offered_profiles(server.configured_profiles, settings, facts.facts)
        report = await facts.check_all(list_choices(profiles, settings))
    except Exception:  # each start is checked again
        server.log.exception("Profiles are not checked against the cluster")
        return
    version = facts.facts.kubernetes_version
    for problem in filter(None, (version_problem(KUBERNETES, version), inexact_rules(version))):
        server.log.warning("%s", problem)
    for finding in report.findings:
        if finding.level is Level.ERROR:
            server.log.error("Device profile cannot work on this cluster: %s", finding)
        elif finding.level is Level.WARNING:
            server.log.warning("Device profile: %s", finding)
    server.log.info(
        "Checked device profiles: choices=%d errors=%d warnings=%d%s",
        len(report.choices),
        report.count(Level.ERROR),
        report.count(Level.WARNING),
        " (the profile list is a function, which is checked at each spawn)" if is_function else "",
    )
