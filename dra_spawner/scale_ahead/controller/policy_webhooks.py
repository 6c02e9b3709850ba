"""Asks the webhooks of policies in the background, and keeps their last good answers.

A webhook gets a POST for each choice whose policy names it, with a JSON object:

``now``
    Time of the question, ISO 8601 in UTC.
``profile``
    Name of the choice, such as ``gpu-slice`` or ``gpu-slice/memory=large``.
``present``, ``pending``, ``reserved``
    Servers that run, servers that are starting without a node or a placeholder, and reserved placeholders.
``floor``, ``limit``
    Placeholders that are wanted at all times, and the most that may be; null without a limit.

It answers with status 200 and ``{"placeholders": 12}``. Other keys are left alone.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

import aiohttp

from dra_spawner import names
from dra_spawner.common.log_once import LogOnce
from dra_spawner.placeholders.planner.targets.policy import MAX_PLACEHOLDERS
from dra_spawner.profiles.syntax.problems import shown
from dra_spawner.scale_ahead.controller.policy_settings import WebhookSettings, policy_for
from dra_spawner.scale_ahead.demand.forecast import GroupSituation
from dra_spawner.scale_ahead.demand.policies import Chain, DemandPolicy, OrForecast, Scheduled, WebhookAnswer

log = logging.getLogger(__name__)

_MAX_BYTES: Final = 16 * 1024
#: Requests to one webhook at the same time.
_AT_ONCE: Final = 8
_HEADERS: Final = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": names.PROJECT}


_Key: TypeAlias = tuple[str, str]


class _BadAnswer(Exception):
    """Raised for an answer that says no number; the message is a part of a sentence."""


@dataclass(frozen=True, slots=True)
class _Question:
    webhook: WebhookSettings
    choice: str
    situation: GroupSituation

    @property
    def key(self) -> _Key:
        return self.webhook.name, self.choice


class PolicyWebhooks:
    """Last good answers of webhooks; see the module.

    Parameters
    ----------
    policies
        By choice, as `read_policies` returns them.
    situations
        What is so at present, by choice. Webhooks are asked about these choices.
    every
        Time between two questions about one choice.
    now
        The time with its zone.
    """

    def __init__(
        self,
        policies: Mapping[str, DemandPolicy],
        situations: Callable[[], Mapping[str, GroupSituation]],
        *,
        every: timedelta = timedelta(seconds=30),
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._policies = policies
        self._situations = situations
        self._every = every
        self._now = now
        # By name of the webhook and choice.
        self._answers: dict[_Key, WebhookAnswer] = {}
        self._failures: dict[_Key, str] = {}
        self._asked: dict[_Key, int] = {}
        self._number = 0
        self._log_once = LogOnce(log)
        self._failing: frozenset[str] = frozenset()

    @property
    def is_needed(self) -> bool:
        """Whether any policy has a webhook."""
        return any(True for policy in self._policies.values() for _ in _webhooks_of(policy))

    def answers(self, choice: str) -> Mapping[str, WebhookAnswer]:
        """The last good answers about a choice, by name of the webhook; `Question.webhooks` of the policies."""
        return {name: answer for (name, each), answer in self._answers.items() if each == choice}

    def problems(self) -> tuple[str, ...]:
        """What is wrong with the latest answers, as sentences without addresses."""
        return tuple(self._problems().values())

    def _problems(self) -> dict[str, str]:
        """By name of the webhook."""
        failures: dict[str, list[tuple[str, str]]] = {}
        for (name, choice), cause in sorted(self._failures.items()):
            failures.setdefault(name, []).append((choice, cause))
        return {
            name: (
                f"The webhook {name} gives no new number for {first}{f' and {len(others)} more' if others else ''}:"
                f" {cause}. Its last good answer counts until it is too old; then the next policy does."
            )
            for name, [(first, cause), *others] in failures.items()
        }

    async def run(self) -> None:
        """Ask again and again, until cancelled."""
        if not self.is_needed:
            return
        while True:
            began = time.monotonic()
            try:
                await self.ask()
            except Exception:  # a defect here must not end the service, and the next answers may be better
                log.exception("The webhooks of policies are not asked")
            await asyncio.sleep(max(self._every.total_seconds() - (time.monotonic() - began), 1.0))

    async def ask(self) -> None:
        """Ask each webhook once about each of its choices, as far as time allows; the longest not asked come first."""
        questions = self._questions()
        # Other choices and webhooks are forgotten.
        keys = {each.key for each in questions}
        self._answers = {key: answer for key, answer in self._answers.items() if key in keys}
        self._failures = {key: cause for key, cause in self._failures.items() if key in keys}
        self._asked = {key: number for key, number in self._asked.items() if key in keys}
        by_webhook: dict[str, list[_Question]] = {}
        for question in sorted(questions, key=lambda each: self._asked.get(each.key, 0)):
            by_webhook.setdefault(question.webhook.name, []).append(question)
        if by_webhook:
            async with (
                aiohttp.ClientSession(
                    headers=_HEADERS, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
                ) as session,
                asyncio.TaskGroup() as tasks,
            ):
                for each in by_webhook.values():
                    tasks.create_task(self._ask_one(session, each))
        problems = self._problems()
        # Once for each cause, whichever choices it is about.
        self._log_once.present({f"{name}: {self._first_cause(name)}": each for name, each in problems.items()})
        for name in sorted(self._failing - problems.keys()):
            log.info("The webhook %s answers again.", name)
        self._failing = frozenset(problems)

    def _first_cause(self, webhook: str) -> str:
        return next(cause for (name, _), cause in sorted(self._failures.items()) if name == webhook)

    def _questions(self) -> list[_Question]:
        return [
            _Question(webhook, choice, situation)
            for choice, situation in self._situations().items()
            # A policy may name the same webhook in several places.
            for webhook in dict.fromkeys(_webhooks_of(policy_for(choice, self._policies)))
        ]

    async def _ask_one(self, session: aiohttp.ClientSession, questions: list[_Question]) -> None:
        """Ask one webhook about its choices; what is left when the time is over comes first the next time."""
        ends = time.monotonic() + self._every.total_seconds()
        left = iter(questions)

        async def work() -> None:
            for question in left:
                await self._put(session, question)
                if time.monotonic() >= ends:
                    return

        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(_AT_ONCE, len(questions))):
                tasks.create_task(work())

    async def _put(self, session: aiohttp.ClientSession, question: _Question) -> None:
        self._number += 1
        self._asked[question.key] = self._number
        try:
            placeholders = await self._answer(session, question)
        except (OSError, aiohttp.ClientError, TimeoutError, ValueError, _BadAnswer) as error:
            self._failures[question.key] = _cause(error, question.webhook)
        else:
            self._failures.pop(question.key, None)
            self._answers[question.key] = WebhookAnswer(placeholders, self._now())

    async def _answer(self, session: aiohttp.ClientSession, question: _Question) -> int:
        """The number that a webhook answers."""
        timeout = aiohttp.ClientTimeout(total=question.webhook.timeout.total_seconds())
        async with session.post(
            question.webhook.url, json=self._body(question), timeout=timeout, allow_redirects=False
        ) as answer:
            if answer.status != 200:
                what = "a redirect, which is not followed" if 300 <= answer.status < 400 else "200 is expected"
                raise _BadAnswer(f"it answers {answer.status} ({what})")
            content = b""
            while len(content) <= _MAX_BYTES and (more := await answer.content.read(_MAX_BYTES + 1 - len(content))):
                content += more
        if len(content) > _MAX_BYTES:
            raise _BadAnswer(f"its answer has more than {_MAX_BYTES} bytes")
        return _number_of(content)

    def _body(self, question: _Question) -> dict[str, Any]:
        situation = question.situation
        return {
            "now": self._now().astimezone(UTC).isoformat(timespec="seconds"),
            "profile": question.choice,
            "present": situation.present,
            "pending": situation.pending_spawns,
            "reserved": situation.reserved,
            "floor": situation.floor,
            "limit": situation.most,
        }


def _webhooks_of(policy: DemandPolicy) -> Iterator[WebhookSettings]:
    match policy:
        case WebhookSettings():
            yield policy
        case OrForecast(inner) | Scheduled(policy=inner):
            yield from _webhooks_of(inner)
        case Chain(policies):
            for each in policies:
                yield from _webhooks_of(each)


def _number_of(content: bytes) -> int:
    allowed = f'{{"placeholders": a whole number from 0 to {MAX_PLACEHOLDERS}}}'
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        raise _BadAnswer(f"its answer is not JSON; allowed is {allowed}") from None
    number = found.get("placeholders") if isinstance(found, dict) else None
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= MAX_PLACEHOLDERS:
        raise _BadAnswer(f"it answers {shown(found)}; allowed is {allowed}")
    return number


def _cause(error: Exception, webhook: WebhookSettings) -> str:
    """What went wrong, without the address."""
    match error:
        case _BadAnswer():
            return str(error)
        case TimeoutError():
            return f"no answer within {webhook.timeout.total_seconds():g} s"
        case aiohttp.ClientConnectorCertificateError():
            return "its certificate is not valid"
        case ssl.SSLError():
            return "no TLS connection can be made"
        case OSError() if error.strerror:
            return error.strerror
    return type(error).__name__
