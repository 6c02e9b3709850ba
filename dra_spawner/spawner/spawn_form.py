"""The spawn form of `DRASpawner`: choices from the cluster's devices, their availability, and submitted options.

The list of profiles is completed before the form is rendered, and before submitted options are checked. An
administrator's own template, or that of another form, is rendered by KubeSpawner. Code of the hub's own may render the
form by KubeSpawner's methods, and may add fields and options.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from jupyterhub.utils import maybe_future, url_path_join
from kubespawner import KubeSpawner
from tornado.httputil import url_concat
from traitlets import default, observe

from dra_spawner.profiles import UnreadName, form_fields_problem, free_text_problems, user_options_problem
from dra_spawner.profiles.common_options import with_common_options
from dra_spawner.profiles.facts import ClusterFacts
from dra_spawner.profiles.profile_names import profile_name_problems
from dra_spawner.profiles.user_form.form import FormTexts, form_profiles, has_policy_choices, unavailable_choice
from dra_spawner.profiles.user_form.offers import DeviceCatalog
from dra_spawner.spawner.availability.client import AvailabilityClient, AvailabilityView, availability_client
from dra_spawner.spawner.availability.form_choices import FormChoices, form_choices
from dra_spawner.spawner.availability.form_page import FormPage, is_fancy_form, replacing_form
from dra_spawner.spawner.hub_addresses import AVAILABILITY, serve_availability
from dra_spawner.spawner.placement.service import is_configured
from dra_spawner.spawner.settings import SpawnerSettings
from dra_spawner.spawner.spawn_refusal import OptionsRefused, RefusalReason, wrong_profile_sentence

__all__ = ["SpawnForm"]

#: How long a form waits for a new answer about availability; then it shows the last one.
_AVAILABILITY_WAIT_SECONDS: Final = 0.3


class SpawnForm(SpawnerSettings):
    """KubeSpawner with choices and texts from devices, and with the availability of choices."""

    _form_choices: FormChoices | None = None
    #: What the service answered to the last question for a form; None without a service.
    _availability_view: AvailabilityView | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._has_default_form = not self.trait_has_value("options_form")

    async def learn_devices_of_choices(self) -> None:
        """Read the devices, if choices are derived from them."""
        if callable(self.profile_list) or has_policy_choices(self.configured_profiles):
            await self.devices.learn()

    # The form

    # KubeSpawner's `_options_form_default` is for code of the hub's own, which calls it: it renders a list at once, and
    # returns a function for a list from a function.

    @default("options_form")
    def _form_of_each_view(self) -> Any:
        # JupyterHub reads this for each of its pages.
        return self._render_options_form_dynamically if self.profile_list else ""

    @observe("options_form")
    def _form_changed(self, change: object) -> None:
        self._has_default_form = False

    async def get_options_form(self) -> Any:
        """Return the form for JupyterHub's page, rendered from the devices and the availability of this moment."""
        if self._has_default_form:
            # A class of the hub's own may render text by default, which traitlets keeps.
            self._trait_values.pop("options_form", None)
        if self.profile_list or callable(self.options_form):
            await self._learn_for_form()
        form = await super().get_options_form()
        # `_options_form_default` may have returned a function to a function of the hub's own.
        return await maybe_future(form(self)) if callable(form) else form

    async def _learn_for_form(self) -> None:
        client = self.availability
        if client is None:
            self._availability_view = None
            await self.devices.learn()
            return
        serve_availability()
        _, view = await asyncio.gather(self.devices.learn(), client.latest(_AVAILABILITY_WAIT_SECONDS))
        self._availability_view = view

    async def _render_options_form_dynamically(self, current_spawner: KubeSpawner) -> Any:
        return self._render_options_form(await self._own_profiles())

    def _render_options_form(self, profile_list: Any) -> Any:
        completed = self._completed(profile_list, with_texts=True)
        profiles = super()._get_initialized_profile_list(completed) or []
        view = self._availability_view
        page = FormPage(profiles, view, self._availability_address() if view is not None else "")
        self._form_choices = page.choices
        other_form = replacing_form(self.profile_form_template, self.additional_profile_form_template_paths)
        valid_options = self._valid_user_options(profiles)
        if other_form is None:
            return page.stock_form(self.additional_profile_form_template_paths, valid_options)
        is_fancy = is_fancy_form(other_form)
        # KubeSpawner gives a template the options as they are, valid or not.
        options, self.user_options = self.user_options, valid_options
        try:
            form = super()._render_options_form(page.labelled_profiles(with_profiles=not is_fancy))
        finally:
            self.user_options = options
        return f"{form}{page.live_script()}" if is_fancy else str(form)

    def _availability_address(self) -> str:
        server = {"user": self.user.name, "server": self.name or ""}
        return url_concat(url_path_join(self.hub.base_url, AVAILABILITY), server)

    def _valid_user_options(self, profiles: Any) -> dict[str, Any]:
        """Return the last options; empty if they are no longer valid."""
        problem: object = self._options_problem(profiles)
        if not problem:
            try:
                self._validate_user_options(profiles)
            except ValueError as refused:
                problem = refused
        if problem:
            self.log.info("The spawn form starts with defaults: %s", problem)
        return {} if problem or not self.user_options else self.user_options

    async def _own_profiles(self) -> Any:
        profiles = self._sorted_dict_values(self.profile_list)
        if callable(profiles):
            profiles = await maybe_future(profiles(self))
            for problem in profile_name_problems(profiles):
                self.log.error("Wrong device profile of a function: %s", problem)
        return profiles

    # Availability

    @property
    def availability(self) -> AvailabilityClient | None:
        """The hub's questions to the service about availability; None where no service is configured."""
        return (
            availability_client(self.placeholder_service, self.log) if is_configured(self.placeholder_service) else None
        )

    async def choices_of_form(self) -> FormChoices:
        """Return the choices of the last form, or of a new one."""
        if self._form_choices is None:
            await self.learn_devices_of_choices()
            self._form_choices = form_choices(self._get_initialized_profile_list(await self._own_profiles()) or [])
        return self._form_choices

    # Profiles

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
                # Imported here, as only claims are asked of drivers.
                from dra_spawner.profiles.drivers.registry import share_enforcements

                return [share.sentence for share in share_enforcements(claim, facts).values()]

            texts = FormTexts(self.form_shows_amounts, sentences if self.form_shows_enforcement else None)
        settings = {"device_claims": self.configured["device_claims"]}
        profile_list = with_common_options(profile_list, self.common_profile_options)
        return form_profiles(profile_list, catalog, settings, picked=self.user_options, texts=texts)

    # Submitted options

    def _options_from_form(self, formdata: dict[str, list[Any]]) -> Any:
        if self.profile_list and not self._has_other_fields():
            known = None
            if not callable(self.profile_list):
                known = self._get_initialized_profile_list(self._sorted_dict_values(self.profile_list))
            self._refuse_options(form_fields_problem(formdata, known, self._options_of_others()))
        of_others = {name: values[0] for name, values in formdata.items() if name in self._options_of_others()}
        return {**of_others, **super()._options_from_form(formdata)}

    def _has_other_fields(self) -> bool:
        """Whether the form may have fields that no profile has; KubeSpawner passes them over."""
        if not self._has_default_form or self.other_code_reads_options:
            return True
        other_form = replacing_form(self.profile_form_template, self.additional_profile_form_template_paths)
        return other_form is not None and not is_fancy_form(other_form)

    def _options_of_others(self) -> set[str]:
        """Return the names of options that other code than profiles reads."""
        applied = getattr(self, "apply_user_options", None)  # since JupyterHub 5.3
        return {*self.other_user_options, *(applied if isinstance(applied, dict) else ())}

    def _apply_user_options_dict(self, user_options: dict[str, Any]) -> None:
        # JupyterHub logs a warning at each start for each other option; those are of profiles.
        named = {name: value for name, value in user_options.items() if name in self.apply_user_options}
        super()._apply_user_options_dict(named)

    def _refuse_options(self, problem: str | None) -> None:
        if isinstance(problem, UnreadName):
            self.log.warning(
                "An option is refused: %s. If other code of this hub reads it, add its name to "
                "c.DRASpawner.other_user_options",
                problem,
            )
        if problem:
            end = "" if problem.endswith((".", "?")) else "."
            raise OptionsRefused(f"Cannot start with these options: {problem}{end} Please choose again.")

    def _options_problem(self, profile_list: list[dict[str, Any]] | None) -> str | None:
        others = self._options_of_others()
        problem = user_options_problem(profile_list, self.user_options, others)
        if problem and self.other_code_reads_options:
            remaining = user_options_problem(profile_list, self.user_options, others, others_read_more=True)
            if remaining != problem:
                self.log.info("An option is left to other code of this hub: %s", problem)
            return remaining
        return problem

    def _validate_user_options(self, profile_list: list[dict[str, Any]] | None) -> None:
        # Replaces KubeSpawner's checks, which may need exponential time for patterns.
        self._refuse_options(self._options_problem(profile_list))
        slug = self.chosen_profile
        chosen = [each for each in profile_list or () if each["slug"] == slug or (not slug and each.get("default"))]
        # A list from a function was not checked at the hub's start.
        problems = profile_name_problems(chosen, "chosen profiles")
        for profile in chosen:
            self._refuse_options(unavailable_choice(profile, self.user_options or {}))
            problems += free_text_problems(profile, f"profile {profile['slug']}")
        for found in problems:
            self.log.error("Profile refused: %s", found)
            raise OptionsRefused(wrong_profile_sentence(str(found)), RefusalReason.PROFILE)
