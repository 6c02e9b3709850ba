"""The sentences that pages quote are sentences of the code."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from dra_spawner.placeholders.availability_text import LABELS
from dra_spawner.spawner.my_devices import device_health
from tests.docs.pages import ROOT
from tests.docs.symptoms import PAGE, page_with_tables

TROUBLESHOOTING = PAGE.read_text()
#: Without the tables that are made from the code.
BY_HAND = re.sub(r"<!-- \w+, by python .*?<!-- end -->", "", TROUBLESHOOTING, flags=re.DOTALL)
FOR_USERS = (ROOT / "docs" / "how-to" / "your-server.md").read_text()
#: Devices, machines and times that a page for users has as examples.
_EXAMPLES = r"(?: on machine |\bMachine )node-\d|\bgpu-\d|\d+ (?:GiB|min|h)(?: of memory(?= needed))?|(?<=\")\d+"


def sentences_of(page: str) -> list[str]:
    """The quoted sentences in the first cells of a page's tables."""
    rows = re.findall(r'^\| (".+?") \|', page, re.M)
    return [sentence for row in rows for sentence in re.findall(r'"([^"]+)"', row)]


def spoken(node: ast.AST) -> str:
    """A text of the code, with an ellipsis for each value."""
    match node:
        case ast.Constant(str(text)):
            return text
        case ast.JoinedStr(values):
            return "".join("…" if isinstance(each, ast.FormattedValue) else spoken(each) for each in values)
    return ""


@cache
def texts() -> str:
    """Every text of the code."""
    found = []
    for path in (ROOT / "dra_spawner").rglob("*.py"):
        nodes = ast.walk(ast.parse(path.read_text()))
        found += [spoken(node) for node in nodes if isinstance(node, ast.Constant | ast.JoinedStr)]
    # Logging and str.format have values of their own kinds.
    return "\n".join(re.sub(r"%[a-z]|\{[a-z_]+\}", "…", text) for text in found if len(text) > 10)


def test_the_code_says_each_sentence() -> None:
    assert len(sentences_of(BY_HAND)) > 30
    said = texts()
    assert [part for each in sentences_of(BY_HAND) for part in each.split("…") if part.strip(" .:") not in said] == []


def test_the_code_says_what_users_are_told_about_it() -> None:
    assert len(sentences_of(FOR_USERS)) > 10
    said = texts()
    wrong = []
    for each in sentences_of(re.sub(_EXAMPLES, "…", FOR_USERS)):
        wrong += [part for part in each.split("…") if part.strip(" .:,") not in said]
    assert wrong == []


def test_users_find_each_badge_and_each_sentence_about_health() -> None:
    rows = re.findall(r"^\| (`[^|]+) \|", FOR_USERS, re.M)
    named = {word.partition(":")[0] for row in rows for word in re.findall(r"`([^`]+)`", row)}
    assert named == set(LABELS.values())
    calls = [
        node for node in ast.walk(ast.parse(Path(device_health.__file__).read_text())) if isinstance(node, ast.Call)
    ]
    told = [spoken(each) for call in calls for each in call.args]
    about_health = [each.partition(".")[0] for each in told if "device" in each and each[0].isupper()]
    assert len(about_health) == 3, about_health
    assert [each for each in about_health if each not in FOR_USERS] == []


def test_each_cause_of_the_code_has_a_row() -> None:
    assert page_with_tables(TROUBLESHOOTING) == TROUBLESHOOTING, "renew: python -m tests.docs.symptoms"
