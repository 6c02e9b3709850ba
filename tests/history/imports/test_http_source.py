"""Servers of imports: what they are asked, and what messages show."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest

from dra_spawner.history.imports.http_source import get_json, shown_source
from dra_spawner.history.imports.imported_rows import SourceError
from tests.all_of_them import all_of_them
from tests.history.redirecting_server import Server, two_servers


@pytest.fixture
def servers() -> Iterator[tuple[Server, Server]]:
    with two_servers() as made:
        yield made


def test_user_and_password_of_an_address(servers: tuple[Server, Server]) -> None:
    named, _ = servers
    url = f"http://anna:a%2Fsecret@{named.address}/?query=a"
    assert get_json(url, {}) == []
    assert named.asked == [("/?query=a", f"Basic {base64.b64encode(b'anna:a/secret').decode()}")]
    named.target = "/"
    for wrong in (
        url,
        "http://anna:a/secret@127.0.0.1:1/",
        "http://anna:secret@127.0.0.1:port/",
        "http://a:secret@[/",
    ):
        with pytest.raises(SourceError) as refused:
            get_json(wrong, {})
        assert "secret" not in str(refused.value)


@all_of_them(
    "source, shown",
    [
        ("launches.csv", "launches.csv"),
        ("http://prometheus:9090/x", "http://prometheus:9090/x"),
        ("https://anna:secret@hub.example.com/hub/api?token=secret#secret", "https://hub.example.com/hub/api"),
        ("postgresql://anna:s@ec/r@et@db:5432/hub?password=secret", "postgresql://db:5432/hub"),
        ("postgresql://anna:sec?r@db:5432/hub", "postgresql://..."),
        ("postgresql://anna:12?3@db:5432/hub", "postgresql://..."),
        ("http://[::1]:8081/hub/api", "http://[::1]:8081/hub/api"),
        ("postgresql://db/hub?user=anna&password=s@ecret", "postgresql://db/hub"),
        ("sqlite:////var/lib/hub.sqlite", "sqlite:////var/lib/hub.sqlite"),
    ],
)
def test_what_messages_show(source: str, shown: str) -> None:
    assert shown_source(source) == shown
