"""Webhooks of policies: the request, the accepted answers, and the last good answer while no other comes."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aiohttp import web

from dra_spawner.scale_ahead.controller.policy_settings import read_policies
from dra_spawner.scale_ahead.controller.policy_webhooks import PolicyWebhooks
from dra_spawner.scale_ahead.demand.forecast import GroupSituation
from dra_spawner.scale_ahead.demand.policies import WebhookAnswer
from tests.local_server import serving
from tests.log_messages import log_messages
from tests.polling import eventually
from tests.running import ended
from tests.set_clock import SetClock

NOW = datetime(2026, 11, 23, 9, 30, tzinfo=UTC)
BUSY = GroupSituation(timedelta(minutes=8), present=31, pending_spawns=4, reserved=2, floor=1, most=50)
LATER = " Its last good answer counts until it is too old; then the next policy does."


class Scaler:
    """A program that answers, and the requests that it got."""

    def __init__(self) -> None:
        self.answer: Any = {"placeholders": 12}
        self.asked: list[dict[str, Any]] = []
        self.paths: Counter[str] = Counter()
        self.hold = asyncio.Event()
        self.hold.set()

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        self.paths[request.path] += 1
        assert request.method == "POST"
        assert request.content_type == "application/json"
        body = await request.json()
        self.asked.append(body)
        await self.hold.wait()
        answer = self.answer(body) if callable(self.answer) else self.answer
        return answer if isinstance(answer, web.StreamResponse) else web.json_response(answer)


def webhook(url: str, name: str = "term", timeout: float = 30) -> dict[str, Any]:
    return {"kind": "webhook", "name": name, "url": f"{url}/scale?token=secret", "timeout_seconds": timeout}


def webhooks(
    policies: Any, situations: Mapping[str, GroupSituation], clock: SetClock[datetime] | None = None, **more: Any
) -> PolicyWebhooks:
    return PolicyWebhooks(read_policies(policies), lambda: situations, now=clock or SetClock(NOW), **more)


async def test_the_request_and_its_answer() -> None:
    scaler, clock = Scaler(), SetClock(NOW)
    large, now = "gpu-slice/memory=large", {"now": "2026-11-23T09:30:00+00:00"}
    async with serving(scaler) as url:
        asked = webhooks({"*": webhook(url)}, {large: BUSY, "cpu": GroupSituation(BUSY.lead)}, clock)
        assert not asked.answers("cpu")
        await asked.ask()
    assert sorted(scaler.asked, key=lambda each: str(each["profile"])) == [
        {**now, "profile": "cpu", **dict.fromkeys(("present", "pending", "reserved", "floor"), 0), "limit": None},
        {**now, "profile": large, "present": 31, "pending": 4, "reserved": 2, "floor": 1, "limit": 50},
    ]
    assert asked.answers("cpu") == {"term": WebhookAnswer(12, NOW)}
    assert asked.problems() == ()


async def test_the_documented_request_is_sent() -> None:
    document = (Path(__file__).parents[3] / "docs" / "reference" / "demand-policies.md").read_text()
    request, answer = map(json.loads, re.findall(r"```json\n(.*?)```", document, re.DOTALL))
    scaler = Scaler()
    scaler.answer = answer
    async with serving(scaler) as url:
        asked = webhooks({"*": webhook(url)}, {"gpu-slice/memory=large": BUSY})
        await asked.ask()
    assert scaler.asked == [request]
    assert asked.answers("gpu-slice/memory=large")["term"].placeholders == answer["placeholders"]


async def test_each_choice_asks_the_webhooks_of_its_own_policy() -> None:
    scaler = Scaler()
    scaler.answer = lambda body: {"placeholders": 7 if body["profile"] == "a" else 1, "because": "of the term"}
    async with serving(scaler) as url:
        lab = {"kind": "schedule", "from": "08:00", "to": "18:00", "policy": webhook(url, "lab")}
        policies = {"a": [lab, webhook(url), {"kind": "forecast"}], "b": webhook(url), "*": {"kind": "forecast"}}
        asked = webhooks(policies, dict.fromkeys("abc", BUSY))
        await asked.ask()
    assert asked.answers("a") == {"lab": WebhookAnswer(7, NOW), "term": WebhookAnswer(7, NOW)}
    assert asked.answers("b") == {"term": WebhookAnswer(1, NOW)}
    assert asked.answers("c") == {}
    assert len(scaler.asked) == 3


NO_JSON = "its answer is not JSON; allowed is"
BAD_ANSWERS: dict[str, tuple[Any, str]] = {
    "failure": (lambda _: web.Response(status=500), "it answers 500 (200 is expected)"),
    "nothing": (lambda _: web.Response(status=204), "it answers 204 (200 is expected)"),
    "redirect": (
        lambda _: web.Response(status=302, headers={"Location": "/elsewhere"}),
        "it answers 302 (a redirect, which is not followed)",
    ),
    "a number alone": (lambda _: web.Response(text="12"), "it answers 12; allowed is"),
    "negative": ({"placeholders": -1}, "it answers {'placeholders': -1}; allowed is"),
    "too many": ({"placeholders": 10_001}, "it answers {'placeholders': 10001}; allowed is"),
    "a fraction": ({"placeholders": 2.5}, "it answers {'placeholders': 2.5}; allowed is"),
    "a truth": ({"placeholders": True}, "it answers {'placeholders': True}; allowed is"),
    "no number": ({}, "it answers {}; allowed is"),
    "a page": (lambda _: web.Response(text="<html>"), NO_JSON),
    "deep": (lambda _: web.Response(text="[" * 9999), NO_JSON),
    "no text": (lambda _: web.Response(body=b"\xff\xfe{"), NO_JSON),
    "a huge number": (lambda _: web.Response(text='{"placeholders": ' + "9" * 9000 + "}"), NO_JSON),
    "too large": (lambda _: web.Response(text=" " * 16_384 + "{}"), "its answer has more than 16384 bytes"),
    "compressed although not asked for": (
        lambda _: web.Response(body=b"\x1f\x8b\x08", headers={"Content-Encoding": "gzip"}),
        NO_JSON,
    ),
}


async def test_bad_answers_leave_the_last_good_one() -> None:
    scaler, clock, wrong = Scaler(), SetClock(NOW), dict[str, str]()
    async with serving(scaler) as url:
        asked = webhooks({"gpu": webhook(url)}, {"gpu": BUSY}, clock)
        for name, (answer, cause) in BAD_ANSWERS.items():
            scaler.answer, good = {"placeholders": 12}, clock.now
            await asked.ask()
            assert asked.problems() == (), name
            scaler.answer = answer
            clock.now += timedelta(minutes=5)
            await asked.ask()
            assert asked.answers("gpu") == {"term": WebhookAnswer(12, good)}, name
            (problem,) = asked.problems()
            is_right = problem.startswith(f"The webhook term gives no new number for gpu: {cause}")
            if not is_right or not problem.endswith(LATER) or "secret" in problem:
                wrong[name] = problem
        scaler.answer = {"placeholders": 0}
        await asked.ask()
    assert wrong == {}
    assert asked.answers("gpu") == {"term": WebhookAnswer(0, clock.now)}
    assert list(scaler.paths) == ["/scale"], "a redirect is not followed"


async def test_an_answer_after_the_timeout_is_not_awaited() -> None:
    scaler = Scaler()
    async with serving(scaler) as url:
        slow = webhooks({"*": webhook(url, timeout=0.1)}, {"a": BUSY, "b": BUSY})
        scaler.hold.clear()
        await slow.ask()
        scaler.hold.set()
    assert slow.problems() == (
        f"The webhook term gives no new number for a and 1 more: no answer within 0.1 s.{LATER}",
    )
    assert slow.answers("a") == {}


async def test_the_last_good_answer_stays_while_no_other_comes() -> None:
    """The webhook hangs, then stalls in the middle of its answer, and then is unreachable."""
    scaler, clock = Scaler(), SetClock(NOW)

    async def stall(request: web.Request) -> web.StreamResponse:
        if scaler.answer != "stall":
            return await scaler(request)
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"placehold')
        await scaler.hold.wait()
        return response

    async with serving(stall) as url:
        asked = webhooks({"*": webhook(url, timeout=0.2)}, {"a": BUSY}, clock)
        good = {"term": WebhookAnswer(12, NOW)}

        async def is_good() -> bool:
            await asked.ask()
            return asked.answers("a") == good

        await eventually(is_good, "an answer in time")
        scaler.hold.clear()
        for answer in ({"placeholders": 0}, "stall"):
            scaler.answer = answer
            clock.now += timedelta(minutes=1)
            await asked.ask()
            assert asked.answers("a") == good
            assert asked.problems() == (f"The webhook term gives no new number for a: no answer within 0.2 s.{LATER}",)
        scaler.hold.set()

    async def is_unreachable() -> bool:
        await asked.ask()
        (problem,) = asked.problems()
        return "Connect call failed" in problem

    await eventually(is_unreachable, "the connection is refused")
    assert asked.answers("a") == good


async def test_an_unreachable_webhook_is_logged_once_and_without_its_address(caplog: Any) -> None:
    async with serving(Scaler()) as url:
        pass
    away = webhooks({"*": webhook(url)}, {"a": BUSY})
    for _ in range(3):
        await away.ask()
    (problem,) = away.problems()
    assert "Connect call failed" in problem
    assert "secret" not in problem
    assert log_messages(caplog) == [problem]


async def test_each_kind_of_failure_is_logged_once_and_that_it_is_over(caplog: Any) -> None:
    caplog.set_level("INFO")
    scaler = Scaler()
    async with serving(scaler) as url:
        asked = webhooks({"*": webhook(url)}, {"a": BUSY, "b": BUSY})
        for status in (500, 500, 503, 200, 200):
            scaler.answer = lambda _, status=status: web.json_response({"placeholders": 1}, status=status)
            await asked.ask()
    said = [each.partition(": it ")[2].partition(" (")[0] or each for each in log_messages(caplog)]
    assert said == ["answers 500", "answers 503", "The webhook term answers again."]


async def test_a_webhook_that_hangs_delays_no_other() -> None:
    hanging, answering = Scaler(), Scaler()
    hanging.hold.clear()
    async with serving(hanging) as slow, serving(answering) as quick:
        policies = {"a": webhook(slow, "slow"), "b": webhook(quick, "quick")}
        asked = webhooks(policies, {"a": BUSY, "b": BUSY})
        asking = asyncio.create_task(asked.ask())
        try:
            await eventually(lambda: asked.answers("b") and hanging.asked, "the other one has answered")
            assert not asking.done()
        finally:
            await ended(asking)
            hanging.hold.set()


async def test_requests_are_few_at_once_and_postponed_ones_come_first() -> None:
    """The time is over when the first requests are answered."""
    scaler = Scaler()
    situations = {f"choice-{number:02}": BUSY for number in range(20)}
    async with serving(scaler) as url:
        asked = webhooks({"*": webhook(url)}, situations, every=timedelta(0))
        for begin in (0, 8):
            scaler.hold.clear()
            asking = asyncio.create_task(asked.ask())
            await eventually(lambda: len(scaler.asked) >= begin + 8, "eight are asked about")  # noqa: B023 (awaited at once)
            scaler.hold.set()
            await asking
            found = [each["profile"] for each in scaler.asked[begin:]]
            assert sorted(found) == sorted(situations)[begin : begin + 8]


async def test_choices_that_are_not_asked_about_any_more_are_forgotten() -> None:
    situations = {"a": BUSY, "b": BUSY}
    scaler = Scaler()
    async with serving(scaler) as url:
        asked = webhooks({"*": webhook(url)}, situations)
        await asked.ask()
        del situations["a"]
        scaler.answer = []
        await asked.ask()
        assert asked.answers("a") == {}
        del situations["b"]
        await asked.ask()
    assert asked.answers("b") == {}
    assert asked.problems() == ()


async def test_webhooks_run_only_where_a_policy_needs_them() -> None:
    await webhooks({"*": {"kind": "forecast"}}, {"a": BUSY}).run()


async def test_webhooks_go_on_after_a_defect(caplog: Any) -> None:
    scaler, fails = Scaler(), [True]

    def situations() -> Mapping[str, GroupSituation]:
        if fails:
            fails.clear()
            raise RuntimeError("a defect")
        return {"a": BUSY}

    async with serving(scaler) as url:
        asked = PolicyWebhooks(read_policies({"*": webhook(url)}), situations, every=timedelta(0))
        running = asyncio.create_task(asked.run())
        try:
            await eventually(lambda: asked.answers("a"), "it has asked again")
        finally:
            await ended(running)
    assert "not asked" in caplog.text
    assert scaler.asked[0]["profile"] == "a"
