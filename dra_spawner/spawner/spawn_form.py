"""The spawn form of `DRASpawner`: choices from the cluster's devices, their availability, and submitted options.

The list of profiles is completed before the form is rendered, and before submitted options are checked. An
administrator's own template, or that of another form, is rendered by KubeSpawner. Code of the hub's own may render the
form by KubeSpawner's methods, and may add fields and options: where it may replace a method, the spawner's is called.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from jupyterhub.utils import maybe_future, url_path_join
from tornado.httputil import url_concat

from dra_spawner import names
from dra_spawner.common.owned_tasks import all_of
from dra_spawner.profiles import UnreadName, form_fields_problem, free_text_problems, user_options_problem
from dra_spawner.profiles.choices import Choice
from dra_spawner.profiles.common_options import with_common_options
from dra_spawner.profiles.facts import ClusterFacts
from dra_spawner.profiles.profile_names import profile_name_problems
from dra_spawner.profiles.user_form.form import FormTexts, form_profiles, has_policy_choices, unavailable_choice
from dra_spawner.profiles.user_form.offers import DeviceCatalog
from dra_spawner.spawner.availability.client import AvailabilityClient, AvailabilityView, availability_client
from dra_spawner.spawner.availability.form_choices import FormChoices, form_choices
from dra_spawner.spawner.availability.form_page import FormPage, is_fancy_form, replacing_form
from dra_spawner.spawner.hub_addresses import AVAILABILITY, serve
from dra_spawner.spawner.placement.service import is_configured
from dra_spawner.spawner.progress.durations import duration_text
from dra_spawner.spawner.server_context import ServerContext
from dra_spawner.spawner.spawn_refusal import OptionsRefused, RefusalReason, wrong_profile_sentence

#: How long a form waits for a new answer about availability; then it shows the last one.
_AVAILABILITY_WAIT_SECONDS: Final = 0.3


class SpawnForm:
    """The spawn form of one server.

    Attributes
    ----------
    is_default
        Whether the hub's configuration sets no ``options_form`` of its own.
    """

    def __init__(self, server: ServerContext) -> None:
        self._server = server
        self._spawner = server.spawner
        self.is_default = not server.spawner.trait_has_value("options_form")
        self._choices: FormChoices | None = None
        #: What the service answered to the last question for a form; None without a service.
        self._view: AvailabilityView | None = None

    async def learn_devices_of_choices(self) -> None:
        """Read the devices, if choices are derived from them."""
        if callable(self._spawner.profile_list) or has_policy_choices(self._server.configured_profiles):
            await self._server.devices.learn()

    # The form

    async def prepare(self) -> None:
        """Learn the devices and the availability of this moment, for the next form."""
        if self.is_default:
            # A class of the hub's own may render text by default, which traitlets keeps.
            self._spawner._trait_values.pop("options_form", None)
        if self._spawner.profile_list or callable(self._spawner.options_form):
            await self._learn_for_form()

    async def _learn_for_form(self) -> None:
        client = self.availability
        if client is None:
            self._view = None
            await self._server.devices.learn()
            return
        serve(AVAILABILITY)
        _, self._view = await all_of(
            asyncio.gather(self._server.devices.learn(), client.latest(_AVAILABILITY_WAIT_SECONDS))
        )

    def render(
        self, profile_list: Any, initialized: Callable[[Any], Any], render_template: Callable[[Any], Any]
    ) -> str:
        """Return the form of a list of profiles.

        Parameters
        ----------
        initialized, render_template
            KubeSpawner's ``_get_initialized_profile_list`` and ``_render_options_form``.
        """
        spawner = self._spawner
        profiles = initialized(self.completed(profile_list, with_texts=True)) or []
        page = FormPage(profiles, self._view, self._availability_address() if self._view is not None else "")
        self._choices = page.choices
        other_form = replacing_form(spawner.profile_form_template, spawner.additional_profile_form_template_paths)
        valid_options = self._valid_user_options(profiles)
        if other_form is None:
            return page.stock_form(spawner.additional_profile_form_template_paths, valid_options)
        is_fancy = is_fancy_form(other_form)
        # KubeSpawner gives a template the options as they are, valid or not.
        options, spawner.user_options = spawner.user_options, valid_options
        try:
            form = render_template(page.labelled_profiles(with_profiles=not is_fancy))
        finally:
            spawner.user_options = options
        return f"{form}{page.live_script()}" if is_fancy else str(form)

    def _availability_address(self) -> str:
        server = {"user": self._spawner.user.name, "server": self._spawner.name or ""}
        return url_concat(url_path_join(self._spawner.hub.base_url, AVAILABILITY), server)

    def _valid_user_options(self, profiles: Any) -> dict[str, Any]:
        """Return the last options; empty if they are no longer valid."""
        problem: object = self._options_problem(profiles)
        if not problem:
            try:
                self._spawner._validate_user_options(profiles)
            except ValueError as refused:
                problem = refused
        if problem:
            self._server.log.info("The spawn form starts with defaults: %s", problem)
        return {} if problem or not self._spawner.user_options else self._spawner.user_options

    async def own_profiles(self) -> Any:
        """Return the user's own list of profiles, not completed."""
        profiles = self._spawner._sorted_dict_values(self._spawner.profile_list)
        if callable(profiles):
            profiles = await maybe_future(profiles(self._spawner))
            for problem in profile_name_problems(profiles):
                self._server.log.error("Wrong device profile of a function: %s", problem)
        return profiles

    # Availability

    @property
    def availability(self) -> AvailabilityClient | None:
        """The hub's questions to the service about availability; None where no service is configured."""
        name, ca_file = self._spawner.placeholder_service, self._spawner.placeholder_service_ca_file
        return availability_client(name, self._server.log, ca_file) if is_configured(name) else None

    async def choices_of_form(self) -> FormChoices:
        """Return the choices of the last form, or of a new one."""
        if self._choices is None:
            await self.learn_devices_of_choices()
            self._choices = form_choices(self._spawner._get_initialized_profile_list(await self.own_profiles()) or [])
        return self._choices

    # Profiles

    def completed(self, profile_list: Any, *, with_texts: bool = False) -> Any:
        """Return the completed list; after an error, the list without amounts."""
        try:
            return self._completed_from(profile_list, self._server.devices.catalog, with_texts)
        except Exception:  # a form without amounts is better than none
            self._server.log.exception("The spawn form is rendered without the cluster's devices")
            return self._completed_from(profile_list, DeviceCatalog(ClusterFacts()), with_texts=False)

    def _completed_from(self, profile_list: Any, catalog: DeviceCatalog, with_texts: bool) -> Any:
        texts = None
        if with_texts:
            facts = catalog.facts if catalog.is_known else None

            def sentences(claim: Any) -> list[str]:
                # Imported here, as only claims are asked of drivers.
                from dra_spawner.profiles.drivers.registry import share_enforcements

                return [share.sentence for share in share_enforcements(claim, facts).values()]

            texts = FormTexts(
                self._spawner.form_shows_amounts,
                sentences if self._spawner.form_shows_enforcement else None,
                _lifetime_of,
                partial(_instead_of, profile_list),
            )
        settings = self._server.settings_of_choices
        profile_list = with_common_options(profile_list, self._spawner.common_profile_options)
        return form_profiles(profile_list, catalog, settings, picked=self._spawner.user_options, texts=texts)

    # Submitted options

    def checked_fields(self, fields: dict[str, list[Any]]) -> dict[str, Any]:
        """Check the fields of a submitted form; return the options that other code than profiles reads.

        Raises
        ------
        OptionsRefused
            If a field belongs to no profile.
        """
        spawner, others = self._spawner, self._options_of_others()
        if spawner.profile_list and not self._has_other_fields():
            known = None
            if not callable(spawner.profile_list):
                known = spawner._get_initialized_profile_list(spawner._sorted_dict_values(spawner.profile_list))
            self._refuse_options(form_fields_problem(fields, known, others))
        return {name: values[0] for name, values in fields.items() if name in others}

    def _has_other_fields(self) -> bool:
        """Whether the form may have fields that no profile has; KubeSpawner passes them over."""
        if not self.is_default or self._server.other_code_reads_options:
            return True
        other_form = replacing_form(
            self._spawner.profile_form_template, self._spawner.additional_profile_form_template_paths
        )
        return other_form is not None and not is_fancy_form(other_form)

    def _options_of_others(self) -> set[str]:
        """Return the names of options that other code than profiles reads."""
        applied = getattr(self._spawner, "apply_user_options", None)  # since JupyterHub 5.3
        return {*self._spawner.other_user_options, *(applied if isinstance(applied, dict) else ())}

    def _refuse_options(self, problem: str | None) -> None:
        if isinstance(problem, UnreadName):
            self._server.log.warning(
                "An option is refused: %s. If other code of this hub reads it, add its name to "
                "c.DRASpawner.other_user_options",
                problem,
            )
        if problem:
            end = "" if problem.endswith((".", "?")) else "."
            raise OptionsRefused(f"Cannot start with these options: {problem}{end} Please choose again.")

    def _options_problem(self, profile_list: list[dict[str, Any]] | None) -> str | None:
        others = {*self._options_of_others(), names.TRIAL_OPTION}
        problem = user_options_problem(profile_list, self._spawner.user_options, others)
        if problem and self._server.other_code_reads_options:
            remaining = user_options_problem(profile_list, self._spawner.user_options, others, others_read_more=True)
            if remaining != problem:
                self._server.log.info("An option is left to other code of this hub: %s", problem)
            return remaining
        return problem

    def validate(self, profile_list: list[dict[str, Any]] | None) -> None:
        """Check the options of the start.

        Raises
        ------
        OptionsRefused
            With a sentence for the user.
        """
        self._refuse_options(self._options_problem(profile_list))
        slug = self._server.chosen_profile
        chosen = [each for each in profile_list or () if each["slug"] == slug or (not slug and each.get("default"))]
        # A list from a function was not checked at the hub's start.
        problems = profile_name_problems(chosen, "chosen profiles")
        for profile in chosen:
            self._refuse_options(unavailable_choice(profile, self._spawner.user_options or {}))
            problems += free_text_problems(profile, f"profile {profile['slug']}")
        for found in problems:
            self._server.log.error("Profile refused: %s", found)
            raise OptionsRefused(wrong_profile_sentence(str(found)), RefusalReason.PROFILE)


def _lifetime_of(choice: Choice) -> str:
    """How long a server of a choice may run; empty without a limit, and without devices."""
    seconds, plan = choice.settings.get("devices_lifetime"), choice.plan
    if not isinstance(seconds, int) or isinstance(seconds, bool) or seconds <= 0:
        return ""
    has_devices = plan.claims or plan.extended_resources.containers or choice.settings.get("intel_gas")
    return duration_text(seconds) if has_devices else ""


def _instead_of(profile_list: object, choice: Choice) -> str:
    """What a user may get in place of a choice that is not free; empty without ``instead``."""
    named = choice.settings.get("instead")
    if not isinstance(named, list | tuple) or not named:
        return ""
    from dra_spawner.profiles.instead import choice_words  # few profiles name others

    others = (name for name in named if name != choice.profile)
    words = [f"“{each}”" for name in others if (each := choice_words(profile_list, name))]
    if not words:
        return ""
    verb = "you get" if choice.settings.get("take_instead") is True else "you are offered"
    return f"While it is not free, {verb} {' or '.join(words)} instead."
