"""The log of the service as one JSON object a line, and as lines for people."""

from __future__ import annotations

import json
import logging
import sys

from dra_spawner.service.application import DRASpawnerService
from dra_spawner.service.log_format import ServiceLogFormatter


def record_of(message: object, *arguments: object, with_error: bool = False) -> logging.LogRecord:
    try:
        raise ValueError("no such\nthing")
    except ValueError:
        exc_info = sys.exc_info() if with_error else None
    return logging.LogRecord("dra_spawner.x", logging.WARNING, "x.py", 1, message, arguments, exc_info)


def test_each_record_is_one_json_object() -> None:
    formatter = ServiceLogFormatter("json")
    lines = [
        formatter.format(each)
        for each in (
            record_of("pod=%s", "jupyter-ada\n\u2028\ud800"),
            record_of("It failed.", with_error=True),
            record_of("wrong %d", "text"),
        )
    ]
    assert all(line.isascii() and "\n" not in line for line in lines)
    said, failed, wrong = map(json.loads, lines)
    assert (said["level"], said["logger"], said["message"]) == (
        "warning",
        "dra_spawner.x",
        "pod=jupyter-ada\n\u2028\ud800",
    )
    assert said["time"].endswith("+00:00")
    assert "ValueError: no such" in failed["exception"]
    assert wrong["message"].startswith("Bad message")


def test_the_setting_is_for_the_whole_log() -> None:
    service = DRASpawnerService(log_format="json")
    (handler,) = service.log.handlers
    assert handler.formatter is not None
    assert json.loads(handler.formatter.format(record_of("Hello.")))["message"] == "Hello."
    plain = DRASpawnerService().log.handlers[0].formatter
    assert plain is not None
    assert "] Hello." in plain.format(record_of("Hello."))
