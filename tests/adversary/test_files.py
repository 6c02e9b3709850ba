"""Hostile files for every command: one sentence, exit code 2, within fifteen seconds of processor time and 500 MB; and mutated ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adversary.command_runner import CommandRunner, Ending
from tests.adversary.hostile_files import ANY_COMMAND, OBJECTS, PROFILES, profile
from tests.adversary.mutations import failures

#: Five on the machine that the limits of files are for; others are three times as slow.
_CPU_SECONDS = 15.0
_BYTES = 500 * 2**20
_MUTATED = 250

FIT = (("fit", "FILE"), ("utilization", "FILE"))
PROFILE_COMMANDS = (("check", "FILE"), ("render", "FILE"))
OBJECTS_OF_CHECK = (("check", "GOOD", "--objects", "FILE"),)
KUBECONFIG = (("check", "GOOD", "--kubeconfig", "FILE"),)

#: Objects that ``check --objects`` does not read: the command does not use claims.
_OF_CLAIMS = {name for name in OBJECTS if "requests" in name or "alternatives" in name or "constraints" in name}


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
            assert ending.cpu_seconds < _CPU_SECONDS
            assert ending.bytes_more < _BYTES
            assert "Traceback" not in ending.messages
        return found

    return endings


def assert_one_sentence(ending: Ending) -> None:
    assert ending.code == 2, ending
    assert ending.messages.startswith("dra-spawner ")
    assert ending.messages.count("\n") == 1
    assert len(ending.messages) < 2_000
    assert ending.messages.removesuffix("\n").isprintable()


@pytest.mark.parametrize("name", ANY_COMMAND)
def test_files_that_no_command_accepts(endings, name):
    for ending in endings(ANY_COMMAND[name](), *FIT, *PROFILE_COMMANDS, *OBJECTS_OF_CHECK, *KUBECONFIG):
        assert_one_sentence(ending)


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_that_the_api_server_would_refuse(endings, name):
    commands = FIT if name in _OF_CLAIMS else (*FIT, *OBJECTS_OF_CHECK)
    for ending in endings(json.dumps(OBJECTS[name]()), *commands):
        assert_one_sentence(ending)


@pytest.mark.parametrize("name", PROFILES)
def test_profiles_that_no_hub_could_offer(endings, name):
    """A value that the language refuses is a finding with its path: code 1, the purpose of ``check``."""
    for ending in endings(json.dumps(PROFILES[name]()), *PROFILE_COMMANDS):
        assert ending.code in (0, 1, 2)
        if ending.code == 2:
            assert_one_sentence(ending)


@pytest.mark.parametrize("file", ["/dev/zero", "/", "/proc/self/mem", "no\0such"])
def test_paths_that_are_not_files(runner, file):
    assert_one_sentence(runner.run("fit", file))


def test_an_expression_that_costs_the_earth(endings):
    """As the API server takes it: whatever `fit` answers, it answers in time."""
    grown = "'a'" + ".replace('a', 'aaaaaaaaaaaaaaaa')" * 8 + ".size() > 0"
    from tests.fit.inputs import api_list, claim, device_class, gpu, gpu_slice, node

    objects = api_list(node("n1"), gpu_slice("n1", gpu()), device_class(grown), claim())
    for ending in endings(json.dumps(objects), *FIT, *OBJECTS_OF_CHECK):
        assert ending.code in (0, 1, 2)


def test_mutated_files_end_every_command_as_documented(tmp_path):
    assert failures(_MUTATED, 12, tmp_path) == []
