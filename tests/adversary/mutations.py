"""Valid files with something wrong in them, made at random, as input of every command.

``python -m tests.adversary.mutations 10000 1`` tries ten thousand of seed 1.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import random
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from dra_spawner.cli import main
from dra_spawner.devcluster.demo.example_nodes import example_objects
from dra_spawner.devcluster.demo.profiles import EXAMPLE_PROFILES
from tests.adversary.hostile_files import profile
from tests.adversary.hostile_values import positions
from tests.commands.cluster_files.inputs import api_list, claim, device_class, gpu, gpu_slice, node

_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

CODES = (0, 1, 2)
"""Exit codes that are documented; a defect has another one."""

_ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1.5, 2**63, -(2**63) - 1, 10**30, 1e300),
    *(
        "",
        "0",
        "-1",
        "1e400",
        "9" * 50,
        "a" * 300,
        "\x00",
        "\x1b[2J",
        "é",
        "\ud800",
        "{",
        "}",
        "{username}",
        "../..",
        "a/b/c",
    ),
    *([], {}, [None], [[]], {"": ""}, {"a": None}, [{}], {"a" * 100: 1}),
)
_ODD_TEXTS = (*"\"'{}[]:,\t\n", "&a ", "*a", "<<: ", "!!set ", "- ", "---\n", "\\u", "\ufeff", "1e999")


@dataclass(frozen=True, slots=True)
class Input:
    """A valid file, and the command that takes it; the file's name goes where ``FILE`` stands."""

    value: Any
    command: tuple[str, ...]


def _profiles() -> list[Any]:
    nested = {"driver": "gpu.example.com", "parameters": {"a": {"b": ["{username}", 1]}}}
    long_form = {
        "requests": {"a": {"device_class": "gpu.example.com"}, "b": {"device_class": "gpu.example.com", "count": 2}},
        "constraints": [{"match_attribute": "resource.kubernetes.io/pcieRoot"}],
        "config": [nested],
        "containers": {"notebook": ["a"], "other": "all"},
    }
    sizes = {
        size: {"display_name": size, "kubespawner_override": {"device_claims": {"gpu": {"capacity": {"memory": size}}}}}
        for size in ("5Gi", "10Gi")
    }
    option = {"memory": {"display_name": "Memory", "choices": sizes, "unlisted_choice": {"enabled": True}}}
    share = {"device_class": "gpu-share.example.com", "where": 'device.driver == "gpu.example.com"'}
    return [profile({"gpu": share}, profile_options=option), profile({"x": long_form}, "long")]


def inputs(directory: Path) -> list[Input]:
    """Valid inputs of all commands; other files that the commands need are written to the directory."""
    policy: dict[str, Any] = {"default": "1Gi", "validRange": {"min": "1Gi", "max": "40Gi", "step": "1Gi"}}
    shared = gpu_slice("n1", gpu(shared=True, **policy), gpu("gpu-1", default="1Gi", validValues=["1Gi", "2Gi"]))
    counters = {"counterSet": "set", "counters": {"slots": {"value": "1"}}}
    taint = {"key": "a", "effect": "NoSchedule"}
    device = {"name": "d", "attributes": {"a": {"int": 1}, "b.example.com/c": {"string": "x"}}, "taints": [taint]}
    partitions = gpu_slice("n2", {**device, "consumesCounters": [counters]})
    used = claim("used", "2Gi", device=("n1", "gpu-0"))
    pod = {"kind": "Pod", "metadata": {"name": "p", "namespace": "team"}, "spec": {"nodeName": "n1", "containers": []}}
    objects = [node("n1"), node("n2"), shared, partitions, device_class(), used, claim(memory="1Gi"), pod]
    cluster, plain = directory / "cluster.json", directory / "profiles.yaml"
    cluster.write_text(json.dumps({"kind": "List", "items": list(example_objects())}))
    plain.write_text(json.dumps(_profiles()))
    values = {"hub": {"config": {}}, "singleuser": {"profileList": _profiles(), "nodeSelector": {"a": "b"}}}
    check = ("check", "FILE", "--objects", str(cluster))
    return [
        *(Input(api_list(*objects), (command, "FILE")) for command in ("fit", "utilization")),
        Input(objects, ("fit", "--format", "json", "FILE")),
        *(Input(value, check) for value in (_profiles(), values, list(EXAMPLE_PROFILES))),
        *(Input(value, ("render", "FILE")) for value in (_profiles(), values)),
        Input(api_list(*objects), ("check", str(plain), "--objects", "FILE")),
        Input({"name": "q", "objects": objects}, ("utilization", "--format", "json", "FILE")),
    ]


def mutated(chance: random.Random, value: Any) -> bytes:
    """A valid value with one to three things changed, in its structure or in its text."""
    value = copy.deepcopy(value)
    changes = chance.randint(1, 3)
    structural = chance.random() < 0.6
    for _ in range(changes if structural else 0):
        value = _change_structure(chance, value)
    content = bytearray(_text(chance, value).encode())
    for _ in range(0 if structural else changes):
        content = _change_text(chance, content)
    return bytes(content)


def _text(chance: random.Random, value: Any) -> str:
    if chance.random() < 0.4:
        # YAML's writer does not take lone surrogates, nor many levels.
        with contextlib.suppress(UnicodeError, RecursionError):
            return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False))
    return json.dumps(value, indent=chance.choice([None, 1]))


def _change_structure(chance: random.Random, value: Any) -> Any:
    places = list(positions(value))
    if not places:
        return chance.choice(_ODD)
    container, key = chance.choice(places)
    match chance.randrange(7):
        case 0:
            del container[key]
        case 1:
            container[key] = chance.choice(_ODD)
        case 2:
            container[key] = [container[key]]
        case 3:
            container[key] = {"a": container[key]}
        case 4:
            other, at = chance.choice(places)
            container[key] = copy.deepcopy(other[at])
        case 5:
            nested = container[key]
            for _ in range(chance.choice([3, 70, 150])):
                nested = [nested] if chance.random() < 0.5 else {"a": nested}
            container[key] = nested
        case _:
            _add(chance, container, key)
    return value


def _add(chance: random.Random, container: Any, key: Any) -> None:
    if isinstance(container, list):
        container.extend(copy.deepcopy(container[key]) for _ in range(chance.choice([1, 40])))
    else:
        container[chance.choice(["a", "", "\x1b", "name", "count", "x" * 300])] = container[key]


def _change_text(chance: random.Random, content: bytearray) -> bytearray:
    if not content:
        return content
    at = chance.randrange(len(content))
    end = min(len(content), at + chance.choice([1, 10, 100]))
    match chance.randrange(6):
        case 0:
            content[at] ^= 1 << chance.randrange(8)
        case 1:
            del content[at:]
        case 2:
            del content[at:end]
        case 3:
            content[at:at] = content[at:end]
        case 4:
            content[at:at] = chance.choice(_ODD_TEXTS).encode()
        case _:
            lines = content.split(b"\n")
            number = chance.randrange(len(lines))
            lines.insert(chance.randrange(len(lines) + 1), lines[number])
            content = bytearray(b"\n".join(lines))
    return content


def run(command: tuple[str, ...]) -> tuple[int, str]:
    """Exit code and messages of a command in this process."""
    output, messages = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(messages):
        code = main(command)
    return code, messages.getvalue()


def failures(count: int, seed: int, directory: Path, found: Callable[[Path], None] = lambda _: None) -> list[str]:
    """Problems with the ends of commands, for a number of mutated files."""
    chance, wrong = random.Random(seed), []
    every, file = inputs(directory), directory / "mutated"
    for number in range(count):
        item = every[number % len(every)]
        file.write_bytes(mutated(chance, item.value))
        command = tuple(part.replace("FILE", str(file)) for part in item.command)
        code, messages = run(command)
        if code not in CODES or "Traceback" in messages or (code == 2 and messages.count("\n") != 1):
            wrong.append(f"{number}: {' '.join(item.command)}: {code}: {messages[-500:]}")
            found(file)
    return wrong


def _try_many(count: int, seed: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        for text in failures(count, seed, Path(directory)):
            print(text)


if __name__ == "__main__":
    _try_many(int(sys.argv[1]), int(sys.argv[2]))
