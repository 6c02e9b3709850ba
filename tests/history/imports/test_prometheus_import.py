"""Counters of launches, as Prometheus answers a range query."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from dra_spawner.history.imports.imported_rows import BadRow, SourceError
from dra_spawner.history.imports.prometheus_import import DEFAULT_QUERY, PrometheusSource
from dra_spawner.history.records import Launch
from dra_spawner.history.user_names import UserNames

NAMES = UserNames(b"k" * 32)
NINE = datetime(2026, 3, 2, 9, tzinfo=UTC)
COUNTER = "jupyterhub_server_spawn_duration_seconds_count"

Json = dict[str, Any]


def series(*values: float | str, name: str = COUNTER, **labels: str) -> Json:
    """A series with a sample each minute."""
    metric = {**labels, **({"__name__": name} if name else {})}
    return {"metric": metric, "values": [[NINE.timestamp() + 60 * n, str(each)] for n, each in enumerate(values)]}


def answer(*found: Json) -> Json:
    return {"status": "success", "data": {"resultType": "matrix", "result": list(found)}}


def source(path: Path | str, **more: Any) -> PrometheusSource:
    return PrometheusSource(str(path), NAMES, NINE, NINE + timedelta(hours=1), **more)


def read(tmp_path: Path, *found: Json, **more: Any) -> list[Launch | BadRow]:
    path = tmp_path / "answer.json"
    path.write_text(json.dumps(answer(*found)))
    return list(source(path, **more).rows())


def minutes(found: list[Launch | BadRow]) -> list[float]:
    assert all(isinstance(each, Launch) for each in found), found
    return [round((each.asked - NINE) / timedelta(minutes=1), 2) for each in found if isinstance(each, Launch)]


def test_a_counter_rises_by_launches_and_begins_again_after_a_restart(tmp_path: Path) -> None:
    found = read(tmp_path, series(5, 7, 7, 2, 3, profile="gpu"))
    assert minutes(found) == [0.33, 0.67, 2.33, 2.67, 3.5]
    assert {each.profile for each in found if isinstance(each, Launch)} == {"gpu"}
    assert found == read(tmp_path, series(5, 7, 7, 2, 3, profile="gpu")), "the same answer has the same launches"


def test_increases_are_added_up_as_they_have_parts_of_launches(tmp_path: Path) -> None:
    found = read(tmp_path, series(0.75, 0.75, 0.5, 1, name=""), profile="cpu")
    assert minutes(found) == [0.5, 1.5, 2.5]


def test_starts_that_failed_are_no_launches(tmp_path: Path) -> None:
    assert read(tmp_path, series(0, 5, status="failure"), series(0, 1, status="success"))[1:] == []


def test_a_gap_is_named_and_its_launches_are_left_out(tmp_path: Path) -> None:
    gap = series(1, 2, 9, 10)
    for sample in gap["values"][2:]:
        sample[0] += 3600
    first, bad, last = read(tmp_path, gap)
    assert isinstance(bad, BadRow)
    assert bad.problem == "found no sample for 3660 s; allowed: at most 300 s"
    assert minutes([first, last]) == [0.5, 62.5]


def test_a_bad_sample_is_named(tmp_path: Path) -> None:
    for value in ("NaN", "+Inf", "-1", "many"):
        bad, *others = read(tmp_path, series(1, value, 2, instance="a"))
        assert isinstance(bad, BadRow), value
        assert bad.location == f"series {{__name__='{COUNTER}', instance='a'}}, sample 2", value
        assert minutes(others) == [1.0], value


def test_unordered_samples_and_too_many_launches_are_named(tmp_path: Path) -> None:
    twice = series(1, 2)
    twice["values"].append(twice["values"][0])
    (bad,) = (each for each in read(tmp_path, twice) if isinstance(each, BadRow))
    assert bad.problem == "found the time 2026-03-02T09:00:00+00:00; allowed: later than the previous sample"
    (huge,) = read(tmp_path, series(1, 1e9))
    assert isinstance(huge, BadRow)
    assert huge.problem == "found 1e+09 launches; allowed: 0 to 100000 launches in a step"
    ancient = {"metric": {}, "values": [[datetime(1, 1, 1, tzinfo=UTC).timestamp(), "1"]]}
    (early,) = read(tmp_path, ancient)
    assert isinstance(early, BadRow)
    assert early.problem == "found the time 0001-01-01T00:00:00+00:00; allowed: from 1970"


def test_files_that_are_no_answer_to_a_range_query(tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    vector, number = ({"data": {"resultType": each, "result": [1]}} for each in ("vector", "matrix"))
    for content in ("", "[]", "{}", json.dumps(vector), json.dumps(number)):
        path.write_text(content)
        with pytest.raises(SourceError, match=r"answer.json: (is not JSON|found)"):
            list(source(path).rows())


class _Prometheus(BaseHTTPRequestHandler):
    """Answers range queries from a counter that rises by one each minute, with Prometheus' limit of points."""

    asked: list[dict[str, str]] = []  # noqa: RUF012 (of one test)

    def do_GET(self) -> None:
        question = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        self.asked.append({**question, "token": self.headers.get("Authorization", "")})
        begin, end, step = (float(question[name]) for name in ("start", "end", "step"))
        if question["query"] == "sum(":
            self.send_error(400, "parse error: unclosed left parenthesis")
            return
        count = int((end - begin) // step) + 1
        if count > 11_000:
            self.send_error(400, "exceeded maximum resolution of 11,000 points per timeseries")
            return
        values = [[begin + step * n, str((begin + step * n) // 60)] for n in range(count)]
        body = json.dumps(answer({"metric": {"__name__": COUNTER}, "values": values})).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving() -> Iterator[str]:
    _Prometheus.asked.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Prometheus)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_server_is_asked_in_parts_of_which_none_is_too_long(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("abc\n")
    begin, end = NINE, NINE + timedelta(days=10)
    with serving() as url:
        found = list(PrometheusSource(url, NAMES, begin, end, token_file=str(token)).rows())
    assert len(found) == 10 * 24 * 60, "none is lost between two parts"
    assert len(_Prometheus.asked) == 2
    assert {(each["query"], each["token"]) for each in _Prometheus.asked} == {(DEFAULT_QUERY, "Bearer abc")}


def test_a_server_that_refuses_or_is_away(tmp_path: Path) -> None:
    with serving() as url, pytest.raises(SourceError, match="answered 400 parse error: unclosed"):
        list(source(url, query="sum(").rows())
    with pytest.raises(SourceError, match="cannot be reached"):
        list(source(url).rows())
    with pytest.raises(SourceError, match="the token cannot be read"):
        list(source(url, token_file=str(tmp_path / "none")).rows())
