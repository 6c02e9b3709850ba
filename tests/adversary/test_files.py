"""Hostile files for every command: one sentence, exit code 2, within 500 MB and bounded time; and mutated ones."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.adversary.command_runner import CommandRunner, Ending
from tests.adversary.hostile_files import ANY_COMMAND, OBJECTS, PROFILES, profile
from tests.adversary.mutations import failures
from tests.all_of_them import all_of_them
from tests.commands.cluster_files.inputs import api_list, claim, device_class, gpu, gpu_slice, node
from tests.examples import example_count

_BYTES = 500 * 2**20
_MUTATED = example_count(1000)

FIT = (("fit", "FILE"), ("utilization", "FILE"))
PROFILE_COMMANDS = (("check", "FILE"), ("render", "FILE"))
OBJECTS_OF_CHECK = (("check", "GOOD", "--objects", "FILE"),)
KUBECONFIG = (("check", "GOOD", "--kubeconfig", "FILE"),)
EACH = (*FIT, *PROFILE_COMMANDS, *OBJECTS_OF_CHECK, *KUBECONFIG)
#: All read files with one reader, so that two commands see each file here, in turn, and all of them in the tier *long*.
_COMMANDS_OF_FILE = len(EACH) if example_count(100) == 100 else 2

#: Objects that ``check --objects`` does not read: the command does not use claims.
_OF_CLAIMS = {name for name in OBJECTS if "requests" in name or "alternatives" in name or "constraints" in name}
#: Each takes seconds.
_COSTLY = [name for name in PROFILES if "choices" in name]


@pytest.fixture(scope="module")
def runner() -> Iterator[CommandRunner]:
    runner = CommandRunner()
    yield runner
    runner.close()


@pytest.fixture
def endings(runner: CommandRunner, tmp_path: Path):
    def endings(content: str | bytes, *commands: tuple[str, ...]) -> list[Ending]:
        hostile, good = tmp_path / "hostile", tmp_path / "good.yaml"
        hostile.write_bytes(content.encode() if isinstance(content, str) else content)
        good.write_text(json.dumps([profile({"gpu": {"device_class": "gpu"}})]))
        paths = {"FILE": str(hostile), "GOOD": str(good)}
        found = [runner.run(*(paths.get(part, part) for part in command)) for command in commands]
        for ending in found:
            assert ending.bytes_more < _BYTES, ending
            assert "Traceback" not in ending.messages, ending
        return found

    return endings


def assert_one_sentence(ending: Ending) -> None:
    assert ending.code == 2, ending
    assert re.fullmatch(r"dra-spawner .{1,2000}\n", ending.messages), ending
    assert ending.messages.removesuffix("\n").isprintable(), ending


def test_files_that_no_command_accepts(endings):
    turns = itertools.cycle(EACH)

    @all_of_them("content", ANY_COMMAND)
    def check(content: Callable[[], str | bytes]) -> None:
        for ending in endings(content(), *itertools.islice(turns, _COMMANDS_OF_FILE)):
            assert_one_sentence(ending)

    check()


def test_objects_that_the_api_server_would_refuse(endings):
    @all_of_them("name, objects", OBJECTS.items())
    def check(name: str, objects: Callable[[], Any]) -> None:
        commands = FIT if name in _OF_CLAIMS else (*FIT, *OBJECTS_OF_CHECK)
        for ending in endings(json.dumps(objects()), *commands):
            assert_one_sentence(ending)

    check()


def assert_is_ended(endings, name: str) -> None:
    """A value that the language refuses is a finding with its path: code 1, the purpose of ``check``."""
    for ending in endings(json.dumps(PROFILES[name]()), *PROFILE_COMMANDS):
        assert ending.code in (0, 1, 2), ending
        if ending.code == 2:
            assert_one_sentence(ending)


@pytest.mark.parametrize("name", _COSTLY)
def test_choices_that_no_hub_could_offer(endings, name):
    assert_is_ended(endings, name)


def test_profiles_that_no_hub_could_offer(endings):
    @all_of_them("name", [name for name in PROFILES if name not in _COSTLY])
    def check(name: str) -> None:
        assert_is_ended(endings, name)

    check()


def test_paths_that_are_not_files(runner):
    for file in ("/dev/zero", "/", "/proc/self/mem", "no\0such"):
        assert_one_sentence(runner.run("fit", file))


def test_an_expression_that_costs_the_earth(endings):
    """As the API server takes it: whatever `fit` answers, it answers in time."""
    grown = "'a'" + ".replace('a', 'aaaaaaaaaaaaaaaa')" * 8 + ".size() > 0"
    objects = api_list(node("n1"), gpu_slice("n1", gpu()), device_class(grown), claim())
    for ending in endings(json.dumps(objects), *FIT, *OBJECTS_OF_CHECK):
        assert ending.code in (0, 1, 2)


def test_mutated_files_end_every_command_as_documented(tmp_path):
    assert failures(_MUTATED, 12, tmp_path) == []
