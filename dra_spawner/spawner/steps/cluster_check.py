"""Step: refuse a choice that can never work on this cluster. `hub_start.profile_check` begins the checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from dra_spawner.profiles.choices import TRAIT, Choice, Layer
from dra_spawner.profiles.compiler.claim_templates import FROM_VLANS, expand_claims
from dra_spawner.profiles.compiler.optional_devices import without_optional
from dra_spawner.profiles.syntax.templates import SAMPLE_VALUES
from dra_spawner.spawner.hub_parts.hub_wide import this_hub
from dra_spawner.spawner.settings import SpawnerSettings
from dra_spawner.spawner.spawn_refusal import RefusalReason, SpawnRefused
from dra_spawner.spawner.steps.attempt import Attempt, Step

if TYPE_CHECKING:  # rules and the simulator, which a hub that checks nothing does without
    from dra_spawner.spawner.devices.checked_facts import CheckedFacts

_WRONG_SETTINGS: Final = "its settings do not fit what is there"
#: Traits that rules read.
_SETTINGS: Final = (
    TRAIT,
    "cpu_guarantee",
    "cpu_limit",
    "environment",
    "extra_annotations",
    "extra_containers",
    "extra_resource_guarantees",
    "extra_resource_limits",
    "init_containers",
    "intel_gas",
    "kubernetes_feature_gates",
    "mem_guarantee",
    "mem_limit",
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
        is_checked = checks_of_hub().facts is not None and (attempt.claims or attempt.spawner.intel_gas)
        return cls(attempt) if is_checked else None

    async def load(self) -> None:
        """Check the choice.

        Raises
        ------
        SpawnRefused
            If the choice cannot work, with the reason.
        """
        facts = checks_of_hub().facts
        assert facts is not None
        try:
            found = await facts.error_in(self._choice())
        except Exception:  # a start never fails because of the check itself
            self.log.exception("A choice is not checked against the cluster")
            return
        if found is not None:
            error, text = found
            self.log.error("Spawn refused, the choice cannot work on this cluster: %s", error)
            # The finding names objects of the cluster, for administrators.
            why = text or _WRONG_SETTINGS
            sentence = f"This choice cannot work on this cluster: {why}. Please tell your administrator."
            refused = SpawnRefused(sentence, RefusalReason.PROFILE)
            refused.path, refused.detail = error.path, error.message
            raise refused

    def _choice(self) -> Choice:
        """Return the user's choice for the rules, free text included, with a sample instead of a VLAN.

        Optional devices are left out, as they may be impossible.
        """
        attempt, profile = self.attempt, self.server.chosen_profile
        settings = values_for_rules(self.spawner)
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


class Checks:
    """Whether this hub checks profiles."""

    def __init__(self) -> None:
        self.facts: CheckedFacts | None = None


def checks_of_hub() -> Checks:
    """The checks of this hub."""
    return this_hub().shared(Checks, Checks)


def values_for_rules(spawner: SpawnerSettings) -> Mapping[str, Any]:
    """Return the present values of the traits that rules read."""
    return {name: value for name in _SETTINGS if spawner.has_trait(name) and (value := getattr(spawner, name))}
