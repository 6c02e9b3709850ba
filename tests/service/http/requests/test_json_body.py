"""Allowed bodies of requests, and the messages about others."""

from __future__ import annotations

import pytest
from tornado.web import HTTPError

from dra_spawner.service.http.requests.json_body import json_object
from tests.all_of_them import all_of_them


def test_an_object_with_known_keys() -> None:
    assert json_object(b'{"profile": "gpu"}', ("profile", "pod")) == {"profile": "gpu"}
    assert json_object(b"{}", ("profile",)) == {}


def test_a_newer_hub_may_tell_more_than_is_known() -> None:
    newer = b'{"profile": "gpu", "mood": 1, "\\ud800": 2}'
    assert json_object(newer, ("profile", "pod"), is_of_hub=True) == {"profile": "gpu"}
    with pytest.raises(HTTPError, match="must be a JSON object"):
        json_object(b"[]", ("profile",), is_of_hub=True)


@all_of_them("body, sentence", [
    pytest.param(b"{", "The body must be JSON.", id="no JSON"),
    pytest.param(b"\xff", "The body must be JSON.", id="no text"),
    pytest.param(b"[" * 100_000, "The body must be JSON.", id="too deep"),
    pytest.param(b"[]", "The body must be a JSON object.", id="a list"),
    pytest.param(b'{"x": 1}', "x: not known; allowed: profile, pod.", id="another key"),
    pytest.param(b'{"\\ud800": 1}', "'\\ud800': not known; allowed: profile, pod.", id="a key that is no Unicode"),
    pytest.param(b'{"\\u001b[2J": 1}', "'\\x1b[2J': not known; allowed: profile, pod.", id="a key for terminals"),
])  # fmt: skip
def test_refused(body: bytes, sentence: str) -> None:
    with pytest.raises(HTTPError) as refused:
        json_object(body, ("profile", "pod"))
    assert refused.value.status_code == 400
    assert str(refused.value.log_message) % refused.value.args == sentence
