"""Patterns for texts of users: whole texts, in linear time."""

from __future__ import annotations

import pytest

from dra_spawner.profiles.syntax.user_options import matches_whole, user_options_problem


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        (r"\d{1,2}Gi", "10Gi", True),
        (r"\d{1,2}Gi", "10Gib", False),
        (r"\d{1,2}Gi", "10Gi\n", False),
        (r"^\d+Gi$", "10Gi", True),
        (r"a|ab", "ab", True),
        (r"(?!latest).+", "v1", True),
        (r"(?!latest).+", "latest", False),
        (r".*", "a" * 1_024, True),
        (r".*", "a" * 1_025, False),
    ],
)
def test_the_whole_text_counts(pattern, text, expected):
    assert matches_whole(pattern, text) is expected


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(?=a)(a+)+$", r"(a*)*\1b"])
def test_no_text_costs_the_hub_its_time(pattern):
    """Python's own expressions would take longer than the universe is old, and so would this test."""
    option = {"unlisted_choice": {"enabled": True, "validation_regex": pattern}}
    profiles = [{"slug": "gpu", "default": True, "profile_options": {"size": option}}]
    for length in (18, 60, 100_000):
        options = {"profile": "gpu", "size--unlisted-choice": "a" * length + "!"}
        assert "is not a valid value of option size" in str(user_options_problem(profiles, options))
