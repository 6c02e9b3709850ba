"""Passwords that a ConfigMap would show are found in settings, and the service does not start with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dra_spawner.common.plain_passwords import passwords_beside, plain_passwords
from dra_spawner.service.application import run_service
from tests.all_of_them import all_of_them


@all_of_them(
    "settings, expected",
    [
        pytest.param(
            {"history": {"url": "postgresql://dra@db/h"}, "calendars": {"a": "https://x:8443/a@b"}}, [], id="none"
        ),
        pytest.param({"history": {"url": "postgresql://dra:s3c/ret@db/h"}}, ["history.url"], id="a-slash"),
        pytest.param({"history": {"url": "postgresql://db/h?password=s"}}, ["history.url"], id="in-the-query"),
        pytest.param({"calendars": {"a": {"location": "https://ada:s3cret@x/a.ics"}}}, ["calendars"], id="deep"),
        pytest.param({"class_webhook": {"url": "https://:s3cret@x"}, "history": 3}, ["class_webhook"], id="no-user"),
    ],
)
def test_addresses_with_passwords(settings: dict[str, Any], expected: list[str]) -> None:
    assert [name for name, _ in plain_passwords(settings)] == expected


def test_the_service_does_not_start_with_a_password_that_the_chart_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own, plain = tmp_path / "dra_spawner_service_config.py", tmp_path / "config.json"
    # A file without the chart may be a Secret.
    own.write_text("c.DRASpawnerService.history = {'url': 'postgresql://dra:s3cret@db/h'}\n")
    plain.write_text("[")
    assert list(passwords_beside(own)) == []
    plain.write_text(json.dumps({"history": {"url": "postgresql://dra:s3cret@db/h"}}))
    assert run_service(["--config", str(own)]) == 1
    said = capsys.readouterr().err
    assert "config.json: history.url has a password" in said
    assert "history.passwordSecret" in said
    assert "s3cret" not in said
