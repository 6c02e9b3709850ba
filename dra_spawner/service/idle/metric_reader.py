"""The use of devices, as Prometheus tells it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

import aiohttp

from dra_spawner.common.owned_tasks import all_of
from dra_spawner.fairness.idle.metrics import (
    InvalidMetrics,
    MetricQuery,
    MetricValues,
    drivers_without_values,
    read_metrics,
)
from dra_spawner.fairness.idle.policy import PrometheusAddress
from dra_spawner.history.imports.http_source import read_token
from dra_spawner.history.imports.imported_rows import SourceError
from dra_spawner.service.idle.hub_reports import UnusableAnswer, limited_json

_SECONDS: Final = 15.0
_MAX_BYTES: Final = 16 * 2**20


@dataclass(frozen=True, slots=True)
class FoundMetrics:
    """The answers to all queries; a query without an answer has no values.

    Attributes
    ----------
    problems
        What is missing, as sentences.
    """

    values: tuple[MetricValues, ...] = ()
    problems: tuple[str, ...] = ()

    def of_driver(self, driver: str) -> MetricValues | None:
        """The answer to the first query that tells of a driver's devices; None without one."""
        return next((each for each in self.values if each.query.tells_of(driver)), None)


async def read_use(address: PrometheusAddress) -> FoundMetrics:
    """Ask all queries. Never raises."""
    if not address.url:
        return FoundMetrics()
    try:
        token = await asyncio.to_thread(read_token, address.token_file)
    except SourceError as error:
        return _none(address, str(error))
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    timeout = aiohttp.ClientTimeout(total=_SECONDS)
    async with aiohttp.ClientSession(headers=headers, timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session:
        answers = await all_of(asyncio.gather(*(_ask(session, address, each) for each in address.queries)))
    values = tuple(each if isinstance(each, MetricValues) else each[0] for each in answers)
    problems = {
        f"The use of devices is not known: {each[1]}." for each in answers if not isinstance(each, MetricValues)
    }
    answered = [each for each in answers if isinstance(each, MetricValues)]
    if silent := drivers_without_values(answered):
        problems.add(f"Prometheus has no series of the use of devices for: {', '.join(silent)}.")
    return FoundMetrics(values, tuple(sorted(problems)))


def _none(address: PrometheusAddress, problem: str) -> FoundMetrics:
    return FoundMetrics(tuple(map(MetricValues, address.queries)), (f"The use of devices is not known: {problem}.",))


async def _ask(
    session: aiohttp.ClientSession, address: PrometheusAddress, query: MetricQuery
) -> MetricValues | tuple[MetricValues, str]:
    """The values; or none, and why."""
    try:
        async with session.post(
            f"{address.url}/api/v1/query", data={"query": query.query}, allow_redirects=False
        ) as answer:
            if answer.status != 200:
                return MetricValues(query), f"Prometheus answers with status {answer.status}"
            found = await limited_json(answer, _MAX_BYTES, "Prometheus")
            # Half a second for the largest answers, in which placements would wait.
            return await asyncio.to_thread(read_metrics, query, found)
    except (UnusableAnswer, InvalidMetrics) as error:
        return MetricValues(query), str(error)
    except TimeoutError:
        return MetricValues(query), f"Prometheus does not answer within {_SECONDS:g} s"
    except (OSError, aiohttp.ClientError, ValueError) as error:  # its text may have the address
        return MetricValues(query), f"Prometheus cannot be reached ({type(error).__name__})"
