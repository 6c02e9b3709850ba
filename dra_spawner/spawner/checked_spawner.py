"""The part of `DRASpawner` that finds choices which can never work: it tells the hub's log, and refuses them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from kubespawner import KubeSpawner
from traitlets import Bool, List, Unicode

from dra_spawner.kube.api import KubernetesApi
from dra_spawner.profiles.choices import TRAIT, Choice, Layer, list_choices
from dra_spawner.profiles.claim_plan import compile_claims
from dra_spawner.profiles.claim_templates import expand_claims
from dra_spawner.profiles.claims import DeviceClaim
from dra_spawner.profiles.findings import Level
from dra_spawner.profiles.lint import unknown_rules
from dra_spawner.profiles.profile_list import offered_profiles
from dra_spawner.profiles.templates import SAMPLE_VALUES
from dra_spawner.spawner.checked_facts import CheckedFacts
from dra_spawner.spawner.spawn_refusal import RefusalReason, SpawnRefused

__all__ = ["CheckedSpawner"]

#: Traits that rules look at.
_SETTINGS = (
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


class CheckedSpawner(KubeSpawner):
    """KubeSpawner whose profiles are checked against the cluster."""

    nodes_may_be_added = Bool(
        True,
        config=True,
        help="""
        Whether nodes with other devices than the present ones may join, by an autoscaler for example.

        If not, a choice that no present node could ever satisfy is refused at once, with the reason. If so, it is only
        logged when the hub starts, and its server waits for such a node. What no node could change (a device class
        that is missing, a field that the API server drops, CEL that fails) is refused either way.
        """,
    )

    ignored_profile_rules = List(
        Unicode(),
        config=True,
        help="""
        Names of rules whose findings neither are logged nor keep users from a choice, such as ``driver-parameters`` if
        your driver is newer than what is known of it here. docs/check.md has all rules.
        """,
    )

    #: One for each hub; tests run several in a process.
    _checked_facts_by_loop: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, CheckedFacts]] = WeakKeyDictionary()
    #: Checks that go on in the background.
    _checking: ClassVar[set[asyncio.Task[None]]] = set()

    def begin_checking(self) -> None:
        """Check all profiles against the cluster in the background; what is found goes to the log.

        From then on, every spawn in this hub is checked, too.
        """
        facts = CheckedFacts(
            KubernetesApi(self.api.api_client, timeout_seconds=self.k8s_api_request_timeout),
            None if self.enable_user_namespaces else self.namespace,
            self.log,
            nodes_may_be_added=self.nodes_may_be_added,
            ignored=self.ignored_profile_rules,
        )
        self._checked_facts_by_loop[asyncio.get_running_loop()] = facts
        for sentence in unknown_rules(self.ignored_profile_rules):
            self.log.warning("ignored_profile_rules: %s", sentence)
        task = asyncio.create_task(self._check_all(facts))
        self._checking.add(task)
        task.add_done_callback(self._checking.discard)

    async def _check_all(self, facts: CheckedFacts) -> None:
        try:
            settings = self._settings()
            is_function = callable(self.profile_list)
            profiles = None if is_function else offered_profiles(self.profile_list, settings, facts.facts)
            report = await facts.check_all(list_choices(profiles, settings))
        except Exception:
            self.log.exception("Profiles are not checked against the cluster")
            return
        for finding in report.findings:
            if finding.level is Level.ERROR:
                self.log.error("Device profile cannot work on this cluster: %s", finding)
            elif finding.level is Level.WARNING:
                self.log.warning("Device profile: %s", finding)
        self.log.info(
            "Checked device profiles: choices=%d errors=%d warnings=%d%s",
            len(report.choices),
            report.count(Level.ERROR),
            report.count(Level.WARNING),
            " (the profile list is a function, which is checked at each spawn)" if is_function else "",
        )

    def _settings(self) -> Mapping[str, Any]:
        """Values of the traits that rules look at, as they are now."""
        return {name: value for name in _SETTINGS if self.has_trait(name) and (value := getattr(self, name))}

    async def refuse_what_cannot_work(self, claims: tuple[DeviceClaim, ...], profile: str) -> None:
        """Refuse claims that cannot work on this cluster; whatever goes wrong with the check itself refuses nobody.

        Parameters
        ----------
        profile
            Slug of the chosen profile.

        Raises
        ------
        SpawnRefused
            With the reason.
        """
        facts = self._checked_facts_by_loop.get(asyncio.get_running_loop())
        if facts is None or not (claims or self._settings().get("intel_gas")):
            return
        try:
            error = await facts.error_in(self._choice(claims, profile))
        except Exception:
            self.log.exception("A choice is not checked against the cluster")
            return
        if error is not None:
            self.log.error("Spawn refused, the choice cannot work on this cluster: %s", error)
            why = error.message if error.message.endswith((".", "?")) else f"{error.message}."
            sentence = f"This choice cannot work on this cluster: {why} An administrator has to mend it."
            raise SpawnRefused(sentence, RefusalReason.PROFILE)

    def _choice(self, claims: tuple[DeviceClaim, ...], profile: str) -> Choice:
        """What the user picked, free text included, as rules see it; placeholders stand for anybody's values."""
        settings = self._settings()
        expanded = expand_claims(claims, SAMPLE_VALUES)
        layer = Layer(f"profile {profile}" if profile else "", settings)
        return Choice(
            path=layer.path or TRAIT,
            claims_path=layer.path_to(TRAIT),
            profile=profile,
            picks={},
            settings=settings,
            claims=expanded,
            plan=compile_claims(expanded, settings),
            layers=(layer,),
        )
