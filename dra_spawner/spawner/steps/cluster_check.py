"""Step: refuse a choice that can never work on this cluster. All choices are checked when the hub starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dra_spawner.profiles.choices import TRAIT, Choice, Layer, list_choices
from dra_spawner.profiles.claim_templates import FROM_VLANS, expand_claims
from dra_spawner.profiles.drivers import configured_drivers
from dra_spawner.profiles.findings import Level
from dra_spawner.profiles.lint import unknown_rules
from dra_spawner.profiles.optional_devices import without_optional
from dra_spawner.profiles.profile_list import offered_profiles
from dra_spawner.profiles.templates import SAMPLE_VALUES
from dra_spawner.spawner.devices.checked_facts import CheckedFacts
from dra_spawner.spawner.hub_wide import hub_wide, in_background
from dra_spawner.spawner.settings import SpawnerSettings
from dra_spawner.spawner.spawn_refusal import RefusalReason, SpawnRefused
from dra_spawner.spawner.steps.attempt import Attempt, Step
from dra_spawner.versions import KUBERNETES, version_problem

__all__ = ["ClusterCheck", "begin_checking"]

#: Traits that rules read.
_SETTINGS: Final = (
    TRAIT,
    "environment",
    "extra_annotations",
    "extra_containers",
    "extra_resource_guarantees",
    "extra_resource_limits",
    "init_containers",
    "intel_gas",
    "node_selector",
    "privileged",
    "tolerations",
    "uid",
    "vlans",
)


class ClusterCheck(Step):
    """Refuses claims that cannot work on this cluster; an error in the check itself refuses no start."""

    @classmethod
    def configured(cls, attempt: Attempt) -> Step | None:
        """Return the step if this hub checks profiles, and the chosen profile has devices."""
        is_checked = _checks().facts is not None and (attempt.claims or attempt.spawner.intel_gas)
        return cls(attempt) if is_checked else None

    async def load(self) -> None:
        """Check the choice.

        Raises
        ------
        SpawnRefused
            If the choice cannot work, with the reason.
        """
        facts = _checks().facts
        assert facts is not None
        try:
            error = await facts.error_in(self._choice())
        except Exception:  # a start never fails because of the check itself
            self.log.exception("A choice is not checked against the cluster")
            return
        if error is not None:
            self.log.error("Spawn refused, the choice cannot work on this cluster: %s", error)
            why = error.message if error.message.endswith((".", "?")) else f"{error.message}."
            sentence = f"This choice cannot work on this cluster: {why} Please tell your administrator."
            raise SpawnRefused(sentence, RefusalReason.PROFILE)

    def _choice(self) -> Choice:
        """Return the user's choice for the rules, free text included, with a sample instead of a VLAN.

        Optional devices are left out, as they may be impossible.
        """
        attempt, profile = self.attempt, self.spawner.chosen_profile
        settings = _settings(self.spawner)
        samples = {name: SAMPLE_VALUES[name] for name in attempt.variables & FROM_VLANS}
        values = {**samples, **attempt.values}
        plan = attempt.compiled(values)
        claims = expand_claims(attempt.claims, values, attempt.path)
        layer = Layer(f"profile {profile}" if profile else "", settings)
        return Choice(
            path=layer.path or TRAIT,
            claims_path=layer.path_to(TRAIT),
            profile=profile,
            picks={},
            settings=settings,
            claims=tuple(left for claim in claims if (left := without_optional(claim)) is not None),
            plan=plan.fallback or plan,
            layers=(layer,),
        )


class _Checks:
    """Whether this hub checks profiles."""

    def __init__(self) -> None:
        self.facts: CheckedFacts | None = None


def _checks() -> _Checks:
    return hub_wide(_Checks, _Checks)


def _settings(spawner: SpawnerSettings) -> Mapping[str, Any]:
    """Return the present values of the traits that rules read."""
    return {name: value for name in _SETTINGS if spawner.has_trait(name) and (value := getattr(spawner, name))}


def begin_checking(spawner: SpawnerSettings) -> None:
    """Check all profiles against the cluster in the background; findings go to the log.

    After this call, every start in this hub is checked, too.
    """
    facts = CheckedFacts(
        spawner.devices,
        spawner.servers_namespace,
        spawner.log,
        nodes_may_be_added=spawner.nodes_may_be_added,
        drivers_prepare_for=configured_drivers(spawner.drivers_prepare_for),
        ignored=spawner.ignored_profile_rules,
    )
    _checks().facts = facts
    for sentence in unknown_rules(spawner.ignored_profile_rules):
        spawner.log.warning("ignored_profile_rules: %s", sentence)
    in_background(_check_all(spawner, facts), "check of profiles")


async def _check_all(spawner: SpawnerSettings, facts: CheckedFacts) -> None:
    try:
        settings = _settings(spawner)
        is_function = callable(spawner.profile_list)
        profiles = None if is_function else offered_profiles(spawner.configured_profiles, settings, facts.facts)
        report = await facts.check_all(list_choices(profiles, settings))
    except Exception:  # each start is checked again
        spawner.log.exception("Profiles are not checked against the cluster")
        return
    if problem := version_problem(KUBERNETES, facts.facts.kubernetes_version):
        spawner.log.warning("%s", problem)
    for finding in report.findings:
        if finding.level is Level.ERROR:
            spawner.log.error("Device profile cannot work on this cluster: %s", finding)
        elif finding.level is Level.WARNING:
            spawner.log.warning("Device profile: %s", finding)
    spawner.log.info(
        "Checked device profiles: choices=%d errors=%d warnings=%d%s",
        len(report.choices),
        report.count(Level.ERROR),
        report.count(Level.WARNING),
        " (the profile list is a function, which is checked at each spawn)" if is_function else "",
    )
