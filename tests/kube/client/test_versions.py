"""Versions of objects of the API."""

from __future__ import annotations

from dra_spawner.kube.client.versions import is_older
from tests.all_of_them import all_of_them


@all_of_them("version, than, older", [
    ("9", "10", True),
    ("10", "9", False),
    ("10", "10", False),
    ("", "10", False),
    ("9", "", False),
    ("9", "x10", False),
    ("²", "10", False),
])  # fmt: skip
def test_versions_are_compared_as_numbers(version: str, than: str, older: bool) -> None:
    assert is_older(version, than) is older
