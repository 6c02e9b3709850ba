"""The webhook's setting: what is refused, and that no message shows an address."""

from __future__ import annotations

from typing import Any

import pytest
from traitlets import TraitError

from dra_spawner.service.ahead.class_messages import MessageTarget, read_message_target
from dra_spawner.service.application import DRASpawnerService
from tests.all_of_them import all_of_them

SECRET = "https://chat.example.org/hook/secret"


@all_of_them(
    "wrong",
    [
        {"url": "chat.example.org/secret"},
        {"url": ["https://secret"]},
        {"url": SECRET, "timeout_seconds": 0},
        {"timeout_seconds": 5},
        {"url": SECRET, "token": SECRET},
    ],
)
def test_what_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(TraitError, match="class_webhook") as refused:
        DRASpawnerService(class_webhook=wrong)
    assert "secret" not in str(refused.value)


def test_what_is_read() -> None:
    assert read_message_target({}) == MessageTarget()
    assert (read_message_target({"url": SECRET}).url, SECRET in repr(read_message_target({"url": SECRET}))) == (
        SECRET,
        False,
    )
    with pytest.raises(TraitError, match="class_limits"):
        DRASpawnerService(class_limits={"ada": {"users": 1}})
    service = DRASpawnerService(class_limits={"user:ada": {"users": 1}})
    assert service.limits_of_classes().of("ada", ()).users == 1
