"""The hub's questions to the service about availability: one for all users, at most one a second.

A service that answers slowly is asked less often: it spends half of its time on answers at most. A form never waits
longer than it says. The service's failures are logged once, and make availability unknown.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from logging import Logger
from math import inf
from time import monotonic
from typing import Final

import aiohttp

from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.spawner.availability.shown import UNKNOWN, ShownAvailability
from dra_spawner.spawner.hub_parts.hub_wide import this_hub
from dra_spawner.spawner.placement.service import service_of_hub
from dra_spawner.spawner.placement.service_address import NoAnswer, ServiceAddress, json_of, whole_body

#: Shortest time between two questions for the same.
_INTERVAL_SECONDS: Final = 1.0
#: Until a question is given up.
_LIMIT_SECONDS: Final = 5.0
#: Age from which on an answer says nothing.
_LONGEST_AGE_SECONDS: Final = 30.0
_MAX_BYTES: Final = 2**23
_MAX_COMBINATIONS: Final = 500
_COMBINATIONS_AT_ONCE: Final = 4

_serials: Final = itertools.count(1)


@dataclass(frozen=True, slots=True)
class AvailabilityView:
    """The last answer.

    Attributes
    ----------
    choices
        By name; choices that are missing are not known.
    age_seconds
        None without an answer.
    serial
        Number of the answer; 0 without one.
    """

    choices: Mapping[str, ShownAvailability] = field(default_factory=dict)
    age_seconds: float | None = None
    serial: int = 0

    def of(self, name: str) -> ShownAvailability:
        """Availability of a choice."""
        return self.choices.get(name, UNKNOWN)


@dataclass(slots=True)
class _Question:
    """A question and its last answer.

    Attributes
    ----------
    next_at
        Earliest moment of the next question.
    answered_at
        The moment of which the last answer tells.
    """

    next_at: float = -inf
    task: asyncio.Task[None] | None = None
    answered_at: float | None = None
    choices: Mapping[str, ShownAvailability] = field(default_factory=dict)
    serial: int = 0


class AvailabilityClient:
    """Asks the service.

    Parameters
    ----------
    address
        The present address; None while there is no service.
    now
        Monotonic seconds.
    """

    def __init__(
        self, address: Callable[[], ServiceAddress | None], log: Logger, now: Callable[[], float] = monotonic
    ) -> None:
        self._address = address
        self._log = log
        self._now = now
        self._all = _Question()
        self._combinations: OrderedDict[str, _Question] = OrderedDict()
        self._at_once = asyncio.Semaphore(_COMBINATIONS_AT_ONCE)
        self._last_problem = ""

    async def latest(self, wait_seconds: float) -> AvailabilityView:
        """The last answer about all choices; a new one if that takes no longer than this."""
        return await self._answered(self._all, "", wait_seconds)

    async def of_combination(self, name: str, wait_seconds: float) -> ShownAvailability:
        """Availability of a combination of options, which the answer about all choices need not have."""
        question = self._combinations.setdefault(name, _Question())
        self._combinations.move_to_end(name)
        if len(self._combinations) > _MAX_COMBINATIONS:
            self._combinations.popitem(last=False)
        return (await self._answered(question, name, wait_seconds)).of(name)

    async def _answered(self, question: _Question, name: str, wait_seconds: float) -> AvailabilityView:
        is_open = question.task is not None and not question.task.done()
        if not is_open and self._now() >= question.next_at:
            question.task = this_hub().begin(self._ask(question, name), "availability")
        if question.task is not None and not question.task.done():
            await asyncio.wait((question.task,), timeout=wait_seconds)
        now = self._now()
        if question.answered_at is None or now - question.answered_at > _LONGEST_AGE_SECONDS:
            return AvailabilityView()
        return AvailabilityView(question.choices, now - question.answered_at, question.serial)

    async def _ask(self, question: _Question, name: str) -> None:
        asked_at = self._now()
        try:
            await self._ask_at(asked_at, question, name)
        finally:
            question.next_at = asked_at + max(_INTERVAL_SECONDS, 2.0 * (self._now() - asked_at))

    async def _ask_at(self, asked_at: float, question: _Question, name: str) -> None:
        address = self._address()
        try:
            if address is None:
                raise NoAnswer("the hub has no address of it")
            async with asyncio.timeout(_LIMIT_SECONDS):
                if name:
                    async with self._at_once:
                        answer, age = await _get(address, {"name": name})
                        choices = read_profiles(answer)
                        # The service may say the name in another order of options.
                        choices = {name: next(iter(choices.values()), UNKNOWN)}
                else:
                    answer, age = await _get(address, {})
                    choices = read_profiles(answer)
        except TimeoutError:
            problem = f"no answer within {_LIMIT_SECONDS:g} s"
        except aiohttp.ClientError as error:
            problem = str(error) or type(error).__name__
        except (NoAnswer, InvalidProfiles) as error:
            problem = str(error)
        except Exception:  # a form is there without the service
            self._log.exception("The dra-spawner service could not be asked for availability")
            return
        else:
            question.choices, question.answered_at = choices, asked_at - age
            question.serial = next(_serials)
            self._last_problem = ""
            return
        if problem != self._last_problem:
            self._log.warning("Spawn forms say that availability is not known: the dra-spawner service: %s", problem)
        self._last_problem = problem


def availability_client(service: str, log: Logger, ca_file: str = "") -> AvailabilityClient:
    """The client of this hub for a service of this name; `service_of_hub` says what the file is."""
    return this_hub().shared(
        ("availability", service), lambda: AvailabilityClient(lambda: service_of_hub(service, ca_file), log)
    )


async def _get(address: ServiceAddress, query: Mapping[str, str]) -> tuple[object, float]:
    """The service's answer, and its age in seconds when the service gave it."""
    async with address.ask("GET", "api/profiles", params=query) as response:
        if query and response.status == 404:
            return {"items": []}, 0.0  # not published
        if response.status != 200:
            raise NoAnswer(f"it answers {response.status}")
        body = await whole_body(response, _MAX_BYTES)
    return json_of(body), _age(response.headers.get("Age", ""))


def _age(header: str) -> float:
    """Seconds of the header ``Age`` (RFC 9111); 0 where there is none."""
    return float(min(int(header), _LONGEST_AGE_SECONDS)) if header.isascii() and header.isdecimal() else 0.0


_LONGEST_SENTENCE: Final = 200
_LONGEST_WAIT_SECONDS: Final = 30 * 24 * 3600


class InvalidProfiles(ValueError):
    """Raised for an answer that is none; the message names the error."""


def read_profiles(answer: object) -> dict[str, ShownAvailability]:
    """Availability by the name of the choice.

    An item that is wrong, or of a service without states, is `UNKNOWN`. Names are not checked: they are compared with
    those of the form.

    Raises
    ------
    InvalidProfiles
        If there is no list of items.
    """
    items = answer.get("items") if isinstance(answer, Mapping) else None
    if not isinstance(items, list):
        raise InvalidProfiles("its answer has no list of items")
    return {
        item["name"]: _shown(item.get("availability"))
        for item in items
        if isinstance(item, Mapping) and isinstance(item.get("name"), str)
    }


def _shown(availability: object) -> ShownAvailability:
    if not isinstance(availability, Mapping):
        return UNKNOWN
    try:
        state = AvailabilityState(str(availability.get("state")))
        return ShownAvailability(state, _sentence(availability.get("sentence")), _wait(availability.get("wait")))
    except ValueError:
        return UNKNOWN


def _sentence(value: object) -> str:
    """Printable text of one line."""
    if not isinstance(value, str) or len(value) > _LONGEST_SENTENCE:
        raise ValueError(value)
    return " ".join("".join(letter if letter.isprintable() else " " for letter in value).split())


def _wait(value: object) -> tuple[int, int] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise ValueError(value)
    low, high = (_seconds(value.get(name)) for name in ("low_seconds", "high_seconds"))
    if low > high:
        raise ValueError(value)
    return low, high


def _seconds(value: object) -> int:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError(value)
    if not 0 <= value <= _LONGEST_WAIT_SECONDS:
        raise ValueError(value)
    return round(value)
