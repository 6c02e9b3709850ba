"""Settings of the service about classes that people announce."""

from __future__ import annotations

from typing import Any

from traitlets import Dict, HasTraits, TraitError, validate

from dra_spawner.profiles.syntax.settings_reader import SettingsError
from dra_spawner.scale_ahead.calendars.class_limits import ClassLimitsByPerson, read_class_limits
from dra_spawner.service.ahead.class_messages import MessageTarget, read_message_target
from dra_spawner.service.traits.secret_traits import SecretDict

__all__ = ["ClassTraits"]


class ClassTraits(HasTraits):
    """Mixed into the application."""

    class_limits = Dict(
        help="""
        Limits of the classes that people may announce, by `user:<name>`, `group:<name>` of the hub, or `*` for all
        others::

            c.DRASpawnerService.class_limits = {
                "*": {"users": 60, "choices": ["gpu-slice"]},
                "group:physics-teachers": {"users": 350, "classes": 40, "weeks": 26},
            }

        `users`: users of all own classes at the same time (100). `classes`: own classes that are not over (20).
        `minutes`: duration of a class (480). `weeks`: weeks until its last time (30). `choices`: choices that may be
        announced, or profiles with all their choices; without it, all. The own row counts, else the largest limits of
        the groups. Operators have no limits.
        """
    ).tag(config=True)

    class_webhook = SecretDict(
        help="""
        Where a message is sent when the verdict of a class turns to No, as a POST with a JSON object
        (docs/how-to/announce-a-class.md)::

            c.DRASpawnerService.class_webhook = {"url": "https://chat.example.org/hook", "timeout_seconds": 5}
        """
    ).tag(config=True)

    @validate("class_limits", "class_webhook")
    def _validate_classes(self, proposal: Any) -> Any:
        value = proposal["value"]
        try:
            (read_class_limits if proposal["trait"].name == "class_limits" else read_message_target)(value)
        except SettingsError as error:
            raise TraitError(str(error)) from None
        return value

    def limits_of_classes(self) -> ClassLimitsByPerson:
        """The limits, for the handlers."""
        return read_class_limits(self.class_limits)

    def message_target(self) -> MessageTarget:
        """Where messages are sent."""
        return read_message_target(self.class_webhook)
