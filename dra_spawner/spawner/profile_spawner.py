"""The part of `DRASpawner` that makes a plan of what a user chose, and refuses what can never work."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from kubespawner import KubeSpawner
from traitlets import Any as AnyValue
from traitlets import Dict, List, Unicode, default

from dra_spawner.profiles import (
    AdminAccessRefused,
    ClaimPlan,
    ProfileError,
    compile_claims,
    form_fields_problem,
    free_text_problems,
    parse_device_claims,
    profile_list_problems,
    user_options_problem,
)
from dra_spawner.profiles.claims import DeviceClaim, SharedBy
from dra_spawner.profiles.extended_resources import EXTENDED_TRAITS
from dra_spawner.profiles.form import unavailable_choice
from dra_spawner.profiles.optional_devices import without_optional
from dra_spawner.profiles.problems import Problem
from dra_spawner.profiles.standing_claims import NotInGroup, scope_of
from dra_spawner.spawner.checked_spawner import CheckedSpawner
from dra_spawner.spawner.form_spawner import FormSpawner
from dra_spawner.spawner.intel_gas_spawner import IntelGasSpawner
from dra_spawner.spawner.spawn_refusal import OptionsRefused, RefusalReason, SpawnRefused, wrong_profile
from dra_spawner.spawner.vlan_spawner import VlanSpawner

__all__ = ["ProfileSpawner"]


class ProfileSpawner(VlanSpawner, IntelGasSpawner, FormSpawner, CheckedSpawner):
    """KubeSpawner with ``device_claims``, compiled for each start to a `ClaimPlan`."""

    device_claims = Dict(
        config=True,
        help="""
        The devices a server gets: a name for each claim, and what it asks for.

        Usually set by a profile's ``kubespawner_override`` or by a choice of its ``profile_options``; dicts merge
        there, so an option may change a single value. In short form a claim is one request::

            c.DRASpawner.device_claims = {
                "gpu": {
                    "device_class": "gpu.example.com",  # a DeviceClass of the cluster
                    "product": "A100*",                 # optional: the product's name
                    "capacity": {"memory": "10Gi"},     # optional: a share of a shareable device
                    "where": "...",                     # optional: CEL, or a list; all must hold
                    "count": 1,                         # optional: from 1 to 32, or "all"
                }
            }

        In long form it has several, and says which container gets which (by default the notebook's gets all)::

            {"accelerator": {"requests": {"gpu": {...}, "nic": {...}}, "containers": {"notebook": ["gpu"]}}}

        For each claim a ResourceClaimTemplate is made for each start; it goes with the server's pod. ``{"template":
        "name"}`` and ``{"claim": "name"}`` use what others made instead. docs/profiles.md has all there is.
        """,
    )

    other_user_options = List(
        Unicode(),
        config=True,
        help="""
        Names of options that something else in this hub reads from ``user_options``, a ``pre_spawn_hook`` for example.

        An option that is neither one of these nor one of the chosen profile is refused, since nothing would come of it.
        Keys of an ``apply_user_options`` that is a dict need not be named here.
        """,
    )

    #: Whatever JSON a user sent, until it is checked. JupyterHub 5 stores a list, too; with JupyterHub's own trait, a
    #: dict, the stored list would keep the user's spawner from being made, and the hub from starting.
    user_options = AnyValue(help="The user's choices, by name.")

    _plan = ClaimPlan()
    #: Whether this start does without devices that it can do without.
    _goes_without = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._configured_device_claims = copy.deepcopy(self.device_claims)

    # Configuration

    def configuration_problems(self) -> list[Problem]:
        """What is wrong in the static configuration of ``device_claims``, ``intel_gas`` and ``profile_list``."""
        problems = profile_list_problems(self.profile_list, self.device_claims, known_traits=self.trait_names())
        return problems or [*self.intel_gas_problems(), *self.vlans_problems()]

    # User options

    @default("user_options")
    def _user_options_default(self) -> dict[str, Any]:
        return {}

    @default("apply_user_options")
    def _apply_user_options_default(self) -> Any:
        # They are applied later. Without a hook JupyterHub logs the names of all options, whatever a user sent.
        return _applied_later

    def clear_state(self) -> None:
        """Forget the last start, and the claims that its profile merged into the configured ones."""
        super().clear_state()
        self.device_claims = copy.deepcopy(self._configured_device_claims)

    def _options_from_form(self, formdata: dict[str, list[Any]]) -> Any:
        is_known = self.profile_list and not callable(self.profile_list)
        profiles = self._get_initialized_profile_list(self._sorted_dict_values(self.profile_list)) if is_known else None
        self._refuse_options(form_fields_problem(formdata, profiles, self._options_of_others()))
        of_others = {name: values[0] for name, values in formdata.items() if name in self._options_of_others()}
        return {**of_others, **super()._options_from_form(formdata)}

    def _options_of_others(self) -> set[str]:
        """Options that are not of profiles."""
        applied = getattr(self, "apply_user_options", None)  # since JupyterHub 5.3
        return {*self.other_user_options, *(applied if isinstance(applied, dict) else ())}

    def _refuse_options(self, problem: str | None) -> None:
        if problem:
            end = "" if problem.endswith((".", "?")) else "."
            raise OptionsRefused(f"Cannot start with these options: {problem}{end} Please choose again.")

    def _validate_user_options(self, profile_list: list[dict[str, Any]]) -> None:
        # KubeSpawner's own checks are among these; it matches patterns in a time that may be exponential.
        self._refuse_options(user_options_problem(profile_list, self.user_options, self._options_of_others()))
        slug = (self.user_options or {}).get("profile")
        for profile in profile_list:
            if profile["slug"] == slug or (not slug and profile.get("default")):
                unavailable = unavailable_choice(profile, self.user_options or {})
                self._refuse_options(unavailable)
                # The list may be a function's; then nobody has checked it before.
                for found in free_text_problems(profile, f"profile {profile['slug']}"):
                    self.log.error("Profile refused: %s", found)
                    raise OptionsRefused(
                        f"This profile is misconfigured. Please tell your administrator. {found}",
                        RefusalReason.PROFILE,
                    )

    async def load_user_options(self) -> None:
        """Apply the chosen profile and compile its claims; refuse what can never work before any API call."""
        try:
            await super().load_user_options()
        except SpawnRefused:
            raise
        except Exception as error:
            # KubeSpawner meets a profile that is no profile, or overrides that do not merge.
            self.log.exception("Profile cannot be applied")
            raise SpawnRefused(
                f"This profile is misconfigured. Please tell your administrator: {error}", RefusalReason.PROFILE
            ) from error
        try:
            path = f"{self._profile_name()}device_claims"
            claims = parse_device_claims(self.device_claims, path, admin_access=bool(self.user.admin))
            # All that is refused is refused before a VLAN is taken for it. What is optional may well be impossible.
            least = tuple(left for claim in claims if (left := without_optional(claim)) is not None)
            await self.refuse_what_cannot_work(least, (self.user_options or {}).get("profile") or "")
            claims = least if self._goes_without else claims
            self._check_who_shares(claims)
            # From here on nothing has placeholders any more, companions included.
            settings = {name: getattr(self, name) for name in EXTENDED_TRAITS}
            self._plan = compile_claims(await self.fill_placeholders(claims, path), settings)
        except AdminAccessRefused as error:
            raise SpawnRefused(
                "This choice gives access to devices for administration; only administrators of this hub may use it.",
                RefusalReason.OPTIONS,
                status_code=403,
            ) from error
        except ProfileError as error:
            self.log.error("Profile refused: %s", error)
            if any(key.endswith("--unlisted-choice") and value for key, value in (self.user_options or {}).items()):
                problem = error.problems[0]
                raise OptionsRefused(
                    f"The value you typed cannot be used: found {problem.found}, allowed: {problem.allowed}."
                ) from error
            raise wrong_profile(str(error.problems[0])) from error

    def _check_who_shares(self, claims: Iterable[DeviceClaim]) -> None:
        """Refuse claims that this user shares with nobody, or cannot share."""
        for claim in claims:
            if claim.sharing is None:
                continue
            if self.enable_user_namespaces and claim.sharing.by is not SharedBy.USER:
                raise wrong_profile("Claims are shared within a namespace, and here each user has one of their own.")
            try:
                scope_of(claim.sharing, self.user.name, self._user_groups())
            except NotInGroup as error:
                raise SpawnRefused(
                    f"The device of this choice is for members of {' or '.join(error.groups)}.",
                    RefusalReason.OPTIONS,
                    status_code=403,
                ) from error

    def _user_groups(self) -> list[str]:
        return [group.name for group in self.user.groups]

    def _profile_name(self) -> str:
        slug = self.user_options.get("profile") if self.user_options else None
        return f"profile {slug}, " if slug else ""


def _applied_later(spawner: KubeSpawner, user_options: object) -> None:
    """Do nothing; `ProfileSpawner.load_user_options` applies options."""
