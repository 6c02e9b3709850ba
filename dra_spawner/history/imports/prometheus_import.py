"""Launches from Prometheus, from a counter of launches.

Prometheus has counts, not single launches. The launches of a step are spread evenly over the step. They have no user,
node or end.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Final
from urllib.parse import urlencode

from dra_spawner.history.imports.http_source import get_json, is_http, read_json, read_token, shown_source
from dra_spawner.history.imports.imported_rows import BadRow, SourceError, quoted
from dra_spawner.history.records import Launch
from dra_spawner.history.user_names import UserNames

DEFAULT_QUERY: Final = 'jupyterhub_server_spawn_duration_seconds_count{status="success"}'
"""JupyterHub's own counter of successful starts."""

_SOURCE: Final = "prometheus"
#: Prometheus answers with 11,000 points of a series at most.
_MAX_POINTS: Final = 10_000
_MAX_IN_STEP: Final = 100_000
#: Limit of a time without samples, in steps; the launches of a longer gap cannot be assigned to times.
_MAX_GAP_STEPS: Final = 5
#: A step before the first time of Python has no begin.
_EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
#: Value of JupyterHub's label ``status``; other starts have failed.
_SUCCESS: Final = "success"


@dataclass(frozen=True)
class PrometheusSource:
    """A Prometheus server, or a file with its answer.

    Attributes
    ----------
    source
        URL of Prometheus (``http://prometheus:9090``), or a file with an answer of ``/api/v1/query_range``.
    names
        Makes identifiers of launches.
    begin, end
        Range of the query; not used for a file.
    step
        Time between two samples.
    query
        Query for a counter. The values of a series without the label ``__name__``, the result of a function, count as
        launches in each step: ``sum by (profile) (increase(...[1m]))``.
    profile
        Profile of series without the label ``profile``.
    """

    source: str
    names: UserNames
    begin: datetime
    end: datetime
    step: timedelta = timedelta(minutes=1)
    query: str = DEFAULT_QUERY
    token_file: str = ""
    profile: str = ""

    def rows(self) -> Iterator[Launch | BadRow]:
        """Launches, and bad samples as bad rows.

        Raises
        ------
        SourceError
            If the source cannot be read.
        """
        answers = self._answers() if is_http(self.source) else iter((read_json(self.source),))
        for series, samples in _series(answers, self.source).items():
            labels = dict(series)
            if labels.get("status", _SUCCESS) != _SUCCESS:
                continue
            location = f"series {{{', '.join(f'{name}={value!r}' for name, value in series)}}}"
            yield from self._of_series(location, labels, samples)

    def _answers(self) -> Iterator[Any]:
        token = read_token(self.token_file)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        begin, longest = self.begin, self.step * _MAX_POINTS
        while begin <= self.end:
            end = min(begin + longest, self.end)
            question = {
                "query": self.query,
                "start": f"{begin.timestamp():.3f}",
                "end": f"{end.timestamp():.3f}",
                "step": f"{self.step.total_seconds():g}",
            }
            yield get_json(f"{self.source.rstrip('/')}/api/v1/query_range?{urlencode(question)}", headers)
            begin = end + self.step

    def _of_series(self, location: str, labels: Mapping[str, str], samples: list[Any]) -> Iterator[Launch | BadRow]:
        read: list[tuple[datetime, float]] = []
        for number, sample in enumerate(samples, 1):
            try:
                read.append(_sample(sample, read[-1][0] if read else None))
            except ValueError as error:
                yield BadRow(f"{location}, sample {number}", f"{error}")
        is_counter = "__name__" in labels
        longest = _MAX_GAP_STEPS * min((after[0] - before[0] for before, after in pairwise(read)), default=self.step)
        rest = 0.0
        steps = pairwise(read) if is_counter else zip(_shifted(read, self.step), read, strict=True)
        for (since, before), (at, value) in steps:
            if at - since > longest:
                problem = f"found no sample for {(at - since).total_seconds():g} s; allowed: at most"
                yield BadRow(f"{location}, {at.isoformat()}", f"{problem} {longest.total_seconds():g} s")
                continue
            # A counter that falls was reset to 0 by a restart.
            rise = (value - before if value >= before else value) if is_counter else value
            if not 0 <= rise <= _MAX_IN_STEP:
                allowed = f"0 to {_MAX_IN_STEP} launches in a step"
                yield BadRow(f"{location}, {at.isoformat()}", f"found {rise:g} launches; allowed: {allowed}")
                continue
            # increase() extrapolates, so its values are not whole numbers.
            count = math.floor(rise + rest + 1e-9)
            rest = max(rise + rest - count, 0.0)
            for number in range(count):
                asked = since + (at - since) * (number + 1) / (count + 1)
                uid = self.names.hash("\0".join((location, at.isoformat(), str(number))))
                profile = labels.get("profile") or self.profile
                yield Launch(f"{_SOURCE}-{uid}", asked, profile, source=_SOURCE)


def _shifted(samples: list[tuple[datetime, float]], step: timedelta) -> list[tuple[datetime, float]]:
    """The beginning of each sample's step, with the value 0."""
    return [(at - step, 0.0) for at, _ in samples]


_Labels = tuple[tuple[str, str], ...]


def _series(answers: Iterator[Any], source: str) -> dict[_Labels, list[Any]]:
    """Samples of each series, from all answers in their order.

    Raises
    ------
    SourceError
        If an answer is not a matrix.
    """
    found: dict[_Labels, list[Any]] = {}
    for answer in answers:
        data = answer.get("data") if isinstance(answer, dict) else None
        result = data.get("result") if isinstance(data, dict) else None
        if not isinstance(data, dict) or data.get("resultType") != "matrix" or not isinstance(result, list):
            raise SourceError(
                f"{shown_source(source)}: found {quoted(answer)}; allowed: the answer to a range query (a matrix)"
            )
        for each in result:
            labels = each.get("metric") if isinstance(each, dict) else None
            values = each.get("values") if isinstance(each, dict) else None
            if not isinstance(labels, dict) or not isinstance(values, list):
                raise SourceError(
                    f"{shown_source(source)}: found the series {quoted(each)}; allowed: metric and values"
                )
            found.setdefault(tuple(sorted((str(name), str(value)) for name, value in labels.items())), []).extend(
                values
            )
    return found


def _sample(sample: Any, before: datetime | None) -> tuple[datetime, float]:
    """Time and value of a sample.

    Raises
    ------
    ValueError
        If the sample is invalid; with the found and the allowed value.
    """
    try:
        moment, value = sample
        at, number = datetime.fromtimestamp(float(moment), UTC), float(value)
    except (TypeError, ValueError, OverflowError, OSError):
        raise ValueError(f"found {quoted(sample)}; allowed: a time in seconds and a number") from None
    if at < _EARLIEST:
        raise ValueError(f"found the time {at.isoformat()}; allowed: from 1970")
    if not math.isfinite(number) or number < 0:
        raise ValueError(f"found the value {value!r}; allowed: a number from 0")
    if before is not None and at <= before:
        raise ValueError(f"found the time {at.isoformat()}; allowed: later than the previous sample")
    return at, number
