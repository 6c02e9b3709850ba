"""The spawn form of `DRASpawner`: choices from the cluster's devices, and the validation of submitted options.

KubeSpawner renders the form from its ``profile_list``. This module completes the list before, for the form and for the
submitted options.
"""

from __future__ import annotations

from typing import Any

from jupyterhub.utils import maybe_future
from kubespawner import KubeSpawner
from traitlets import default

from dra_spawner.profiles import form_fields_problem, free_text_problems, user_options_problem
from dra_spawner.profiles.drivers.registry import share_enforcements
from dra_spawner.profiles.facts import ClusterFacts
from dra_spawner.profiles.form import FormTexts, form_profiles, has_policy_choices, unavailable_choice
from dra_spawner.profiles.offers import DeviceCatalog
from dra_spawner.spawner.settings import SpawnerSettings
from dra_spawner.spawner.spawn_refusal import OptionsRefused, RefusalReason, wrong_profile_sentence

__all__ = ["SpawnForm"]


class SpawnForm(SpawnerSettings):
    """KubeSpawner with choices and texts from devices."""

    async def learn_devices_of_choices(self) -> None:
        """Read the devices, if choices are made from them."""
        if callable(self.profile_list) or has_policy_choices(self.profile_list):
            await self.devices.learn()

    # The form

    @default("options_form")
    def _options_form_default(self) -> Any:
        # Rendered for each view of the page, as devices change.
        return self._render_form if self.profile_list else ""

    async def _render_form(self, spawner: KubeSpawner) -> str:
        await self.devices.learn()
        profiles = self._sorted_dict_values(self.profile_list)
        if callable(profiles):
            profiles = await maybe_future(profiles(spawner))
        return str(self._render_options_form(profiles))

    def _render_options_form(self, profile_list: Any) -> Any:
        return super()._render_options_form(self._completed(profile_list, with_texts=True))

    def _get_initialized_profile_list(self, profile_list: Any) -> Any:
        return super()._get_initialized_profile_list(self._completed(profile_list))

    def _completed(self, profile_list: Any, *, with_texts: bool = False) -> Any:
        """Return the completed list; after an error, the list without amounts."""
        try:
            return self._completed_from(profile_list, self.devices.catalog, with_texts)
        except Exception:  # a form without amounts is better than none
            self.log.exception("The spawn form is rendered without the cluster's devices")
            return self._completed_from(profile_list, DeviceCatalog(ClusterFacts()), with_texts=False)

    def _completed_from(self, profile_list: Any, catalog: DeviceCatalog, with_texts: bool) -> Any:
        texts = None
        if with_texts:
            facts = catalog.facts if catalog.is_known else None

            def sentences(claim: Any) -> list[str]:
                return [share.sentence for share in share_enforcements(claim, facts).values()]

            texts = FormTexts(self.form_shows_amounts, sentences if self.form_shows_enforcement else None)
        settings = {"device_claims": self.configured["device_claims"]}
        return form_profiles(profile_list, catalog, settings, picked=self.user_options, texts=texts)

    # Submitted options

    def _options_from_form(self, formdata: dict[str, list[Any]]) -> Any:
        is_known = self.profile_list and not callable(self.profile_list)
        profiles = self._get_initialized_profile_list(self._sorted_dict_values(self.profile_list)) if is_known else None
        self._refuse_options(form_fields_problem(formdata, profiles, self._options_of_others()))
        of_others = {name: values[0] for name, values in formdata.items() if name in self._options_of_others()}
        return {**of_others, **super()._options_from_form(formdata)}

    def _options_of_others(self) -> set[str]:
        """Return the names of options that are not of profiles."""
        applied = getattr(self, "apply_user_options", None)  # since JupyterHub 5.3
        return {*self.other_user_options, *(applied if isinstance(applied, dict) else ())}

    def _apply_user_options_dict(self, user_options: dict[str, Any]) -> None:
        # JupyterHub logs a warning at each start for each other option; those are of profiles.
        named = {name: value for name, value in user_options.items() if name in self.apply_user_options}
        super()._apply_user_options_dict(named)

    def _refuse_options(self, problem: str | None) -> None:
        if problem:
            end = "" if problem.endswith((".", "?")) else "."
            raise OptionsRefused(f"Cannot start with these options: {problem}{end} Please choose again.")

    def _validate_user_options(self, profile_list: list[dict[str, Any]]) -> None:
        # KubeSpawner's own checks are among these; it matches patterns in a time that may be exponential.
        self._refuse_options(user_options_problem(profile_list, self.user_options, self._options_of_others()))
        slug = self.chosen_profile
        for profile in profile_list:
            if profile["slug"] == slug or (not slug and profile.get("default")):
                self._refuse_options(unavailable_choice(profile, self.user_options or {}))
                # A list from a function was not checked before.
                for found in free_text_problems(profile, f"profile {profile['slug']}"):
                    self.log.error("Profile refused: %s", found)
                    raise OptionsRefused(wrong_profile_sentence(str(found)), RefusalReason.PROFILE)
