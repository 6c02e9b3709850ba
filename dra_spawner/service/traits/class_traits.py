"""Settings of the service about classes that people announce."""

from __future__ import annotations

from typing import Any

from traitlets import Dict, HasTraits, validate

from dra_spawner.scale_ahead.calendars.class_limits import ClassLimitsByPerson, read_class_limits
from dra_spawner.service.ahead.class_messages import MessageTarget, read_message_target
from dra_spawner.service.traits.checked_traits import SecretDict, checked


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
        is_limits = proposal["trait"].name == "class_limits"
        return checked(proposal, read_class_limits if is_limits else read_message_target)

    def limits_of_classes(self) -> ClassLimitsByPerson:
        """The limits, for the handlers."""
        return read_class_limits(self.class_limits)

    def message_target(self) -> MessageTarget:
        """Where messages are sent."""
        return read_message_target(self.class_webhook)
