"""The HTML of the spawn form: profiles, options, and the availability of each choice.

Names and descriptions of profiles are HTML of the administrator, as in KubeSpawner. All else is escaped.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PackageLoader
from markupsafe import Markup

from dra_spawner.placeholders.availability_text import LABELS, LEGEND
from dra_spawner.placeholders.planner.targets.choice_names import choice_name
from dra_spawner.spawner.availability.client import AvailabilityView
from dra_spawner.spawner.availability.form_choices import FormOption, form_choices

TEMPLATES: Final = Path(__file__).with_name("templates")
#: Between a choice and its label.
SEPARATOR: Final = " · "
#: State, label and meaning.
_LEGEND: Final = tuple((state.value, LABELS[state], meaning) for state, meaning in LEGEND.items())

Profile = Mapping[str, Any]


class FormPage:
    """One rendering of the form.

    Parameters
    ----------
    profiles
        As KubeSpawner has initialized them.
    view
        Availability; None where none is shown.
    address
        Of the hub's answers about availability.
    """

    def __init__(self, profiles: Sequence[Profile], view: AvailabilityView | None, address: str) -> None:
        self.profiles = profiles
        self.choices = form_choices(profiles)
        self._single = dict.fromkeys(self.choices.names())
        self._view = view
        self._address = address

    def stock_form(self, template_paths: Sequence[str], user_options: Mapping[str, Any]) -> str:
        """The form of this project.

        Parameters
        ----------
        template_paths
            Of the administrator, whose ``style.css`` may replace KubeSpawner's.
        user_options
            The last options, valid; empty for none.
        """
        template = _environment(tuple(template_paths)).get_template("dra-spawner-form.html")
        return template.render(
            # One after the other: few objects at a time spare the hub's collector of garbage a look at all others.
            profiles=(
                self._shown(profile, options, user_options)
                for profile, (_, options) in zip(self.profiles, self.choices.profiles, strict=True)
            ),
            is_live=self._view is not None,
            legend=_LEGEND,
            separator=SEPARATOR,
            script_data=self._script_data(),
        )

    def labelled_profiles(self, *, with_profiles: bool) -> list[Profile]:
        """The profiles for a third-party form: labels are appended to names and descriptions.

        Parameters
        ----------
        with_profiles
            Whether labels of profiles are added to their descriptions; those of choices are added to their names.
        """
        labelled: list[Profile] = deepcopy(list(self.profiles))
        if self._view is None:
            return labelled
        for profile, (slug, options) in zip(labelled, self.choices.profiles, strict=True):
            assert isinstance(profile, dict)
            if with_profiles:
                label = self._label_html(slug)
                before = profile.get("description")
                profile["description"] = f"{before} Availability: {label}." if before else f"Availability: {label}."
            for option in options:
                for name, choice in profile["profile_options"][option.name]["choices"].items():
                    label = self._label_html(self.choices.name_of(slug, option, str(name)))
                    choice["display_name"] = f"{choice.get('display_name') or html.escape(str(name))}{SEPARATOR}{label}"
        return labelled

    def live_script(self) -> str:
        """The script that keeps labels fresh, for another form."""
        if self._view is None:
            return ""
        template = _environment(()).get_template("dra-spawner-live.html")
        return template.render(legend=_LEGEND, script_data=self._script_data())

    def _shown(
        self, profile: Profile, options: Sequence[FormOption], user_options: Mapping[str, Any]
    ) -> dict[str, Any]:
        """What the template shows of a profile."""
        slug, chosen = str(profile["slug"]), user_options.get("profile")
        picked = user_options if chosen == slug or (not chosen and profile.get("default")) else {}
        is_chosen = chosen == slug if chosen else bool(profile.get("default"))
        all_options = profile.get("profile_options") or {}
        selected: dict[str, str | None] = {}
        for option in options:
            unlisted = all_options[option.name].get("unlisted_choice") or {}
            choice = picked.get(option.name)
            selected[option.name] = str(choice) if choice in option.choices else option.default
            free_text = picked.get(f"{option.name}--unlisted-choice")
            if unlisted.get("enabled") and (free_text or not option.choices):
                selected[option.name] = None
        name = _combination(slug, options, selected)
        return {
            "slug": slug,
            "display_name": _html(profile.get("display_name"), slug),
            "description": _html(profile.get("description"), ""),
            "is_chosen": is_chosen,
            "options": (
                self._shown_option(slug, options, option, all_options[option.name], selected, picked)
                for option in options
            ),
            "availability": self._view.of(name or "") if self._view is not None else None,
        }

    def _shown_option(
        self,
        slug: str,
        options: Sequence[FormOption],
        option: FormOption,
        configured: Mapping[str, Any],
        selected: Mapping[str, str | None],
        picked: Mapping[str, Any],
    ) -> dict[str, Any]:
        """What the template shows of an option; the label of a choice is for what is selected of the other options."""
        unlisted = configured.get("unlisted_choice") or {}
        choices = "".join(
            _option_html(
                str(name),
                entry.get("display_name"),
                self._label(_combination(slug, options, {**selected, option.name: str(name)})),
                is_selected=str(name) == selected[option.name],
                is_live=self._view is not None,
            )
            for name, entry in (configured.get("choices") or {}).items()
        )
        is_free_text = selected[option.name] is None
        return {
            "name": option.name,
            "display_name": _html(configured.get("display_name"), option.name),
            "selected": selected[option.name],
            "free_text": picked.get(f"{option.name}--unlisted-choice", "") if is_free_text else "",
            "unlisted": unlisted if unlisted.get("enabled") else None,
            "choices": Markup(choices),  # noqa: S704 - escaped
        }

    def _label(self, name: str | None) -> str:
        """Label of a choice; empty for a combination that was not asked for: the script does."""
        if self._view is None or name is None or (name not in self._view.choices and name not in self._single):
            return ""
        return self._view.of(name).label

    def _label_html(self, name: str) -> str:
        # No quotes: fancy-profiles shows names as text, an administrator's template may have them in an attribute.
        label = self._view.of(name).label if self._view is not None else ""
        return html.escape(label.replace("'", "\u2019").replace('"', "\u201d"))

    def _script_data(self) -> dict[str, Any]:
        """What the script needs."""
        profiles = {
            slug: [[option.name, option.default] for option in options] for slug, options in self.choices.profiles
        }
        data: dict[str, Any] = {"profiles": profiles, "separator": SEPARATOR}
        if self._view is not None:
            shown = {each: each.as_json() for each in {self._view.of(name) for name in self._single}}
            data |= {
                "address": self._address,
                "age_seconds": self._view.age_seconds,
                "choices": {name: shown[self._view.of(name)] for name in self._single},
            }
        return data


def replacing_form(template: str, template_paths: Sequence[str]) -> str | None:
    """The administrator's own form template; None if there is none.

    Parameters
    ----------
    template, template_paths
        KubeSpawner's ``profile_form_template`` and ``additional_profile_form_template_paths``.
    """
    if template:
        return template
    for path in template_paths:
        found = Path(path, "form.html")
        if found.is_file():
            return found.read_text()
    return None


def is_fancy_form(template: str) -> bool:
    """Whether a form template is that of jupyterhub-fancy-profiles."""
    return "fancy-profiles/static" in template


def _combination(slug: str, options: Sequence[FormOption], selected: Mapping[str, str | None]) -> str | None:
    """Name of a combination; None with free text."""
    others: dict[str, str] = {}
    for option in options:
        choice = selected[option.name]
        if choice is None:
            return None
        if choice != option.default:
            others[option.name] = choice
    return choice_name(slug, others)


def _option_html(name: str, display_name: object, label: str, *, is_selected: bool, is_live: bool) -> str:
    """A choice in a drop-down.

    Not in the template: there are hundreds, and a template makes several objects of each, which the hub's collector
    of garbage counts.
    """
    shown = str(display_name) if display_name else html.escape(name)
    attribute = f' data-label="{html.escape(label)}"' if is_live else ""
    end = f"{SEPARATOR}{html.escape(label)}" if label else ""
    selected = "selected" if is_selected else ""
    return f'<option value="{html.escape(name)}" {selected}{attribute}>{shown}{end}</option>\n'


def _html(value: object, otherwise: str) -> Markup:
    """HTML of the administrator, or escaped text where there is none."""
    return Markup(str(value)) if value else Markup.escape(otherwise)  # noqa: S704 - the administrator's, as in KubeSpawner


@lru_cache(maxsize=8)
def _environment(template_paths: tuple[str, ...]) -> Environment:
    loader = ChoiceLoader(
        [FileSystemLoader(template_paths), FileSystemLoader(TEMPLATES), PackageLoader("kubespawner", "templates")]
    )
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.policies["json.dumps_kwargs"] = {"sort_keys": False}
    return environment
