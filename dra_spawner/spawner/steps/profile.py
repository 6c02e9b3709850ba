"""Step: parse the claims of the chosen profile, and find the values of their template variables."""

from __future__ import annotations

from typing import Any

from dra_spawner.profiles import AdminAccessRefused, ProfileError, parse_device_claims
from dra_spawner.profiles.compiler.claim_templates import FROM_VLANS
from dra_spawner.profiles.compiler.claims import DeviceClaim, SharedBy
from dra_spawner.profiles.compiler.optional_devices import without_optional
from dra_spawner.profiles.compiler.shared_claims import NotInGroup, is_for_groups, scope_of
from dra_spawner.profiles.syntax.properties import may_be_lists
from dra_spawner.profiles.syntax.templates import VARIABLES, value_problem
from dra_spawner.spawner.settings import SpawnerSettings
from dra_spawner.spawner.spawn_refusal import RefusalReason, SpawnRefused, refusal_of_profile, wrong_profile
from dra_spawner.spawner.steps.attempt import Step


class Profile(Step):
    """Reads ``device_claims``, and refuses claims that this user can never have. Makes no requests."""

    async def load(self) -> None:
        """Parse the claims.

        Raises
        ------
        SpawnRefused
            If the profile is misconfigured, or not for this user.
        """
        attempt, profile = self.attempt, self.server.chosen_profile
        attempt.path = f"profile {profile}, device_claims" if profile else "device_claims"
        try:
            claims = self._parsed()
        except AdminAccessRefused as error:
            raise SpawnRefused(
                "This choice gives access to devices for administration; only administrators of this hub may use it.",
                RefusalReason.OPTIONS,
                status_code=403,
            ) from error
        except ProfileError as error:
            self.log.error("Profile refused: %s", error)
            raise refusal_of_profile(error, self.spawner.user_options) from error
        if attempt.retry.without_optional_devices:
            claims = tuple(left for claim in claims if (left := without_optional(claim)) is not None)
        attempt.claims = claims
        self._check_sharing()
        for name in sorted(attempt.variables - FROM_VLANS):
            attempt.values[name] = self._value(name)

    def _parsed(self) -> tuple[DeviceClaim, ...]:
        value, path = self.spawner.device_claims, self.attempt.path
        lists = may_be_lists({"kubernetes_feature_gates": self.spawner.kubernetes_feature_gates})
        try:
            return parse_device_claims(value, path, list_attributes=lists)
        except AdminAccessRefused:
            # Read only here: users that tests of others make up have no such attribute.
            if not self.spawner.user.admin:
                raise
        return parse_device_claims(value, path, admin_access=True, list_attributes=lists)

    def _check_sharing(self) -> None:
        """Refuse shared claims that this user cannot use."""
        groups = self.server.user_groups if any(map(is_for_groups, self.attempt.claims)) else ()
        for claim in self.attempt.claims:
            if claim.sharing is None:
                continue
            if self.spawner.enable_user_namespaces and claim.sharing.by is not SharedBy.USER:
                raise wrong_profile("Claims are shared within a namespace, and here each user has one of their own.")
            try:
                scope_of(claim.sharing, self.spawner.user.name, groups)
            except NotInGroup as error:
                raise SpawnRefused(
                    f"The device of this choice is for members of {' or '.join(error.groups)}.",
                    RefusalReason.OPTIONS,
                    status_code=403,
                ) from error

    def _value(self, name: str) -> Any:
        value = _value_of(self.spawner, name)
        if value_problem(name, value):
            rule = VARIABLES[name].rule.allowed
            sentence = f"This choice uses {{{name}}}, which must be {rule}; yours is not."
            raise SpawnRefused(sentence, RefusalReason.OPTIONS, status_code=403)
        return value


def _value_of(spawner: SpawnerSettings, name: str) -> str | int:
    match name:
        case "pod_name" | "namespace":
            return str(getattr(spawner, name))
        case "unescaped_username":
            return str(spawner.user.name)
        case "unescaped_servername":
            return str(spawner.name or "")
        case "userid":
            return int(spawner.user.id)
    return str(spawner._expand_user_properties(f"{{{name}}}", slug_scheme="safe"))
