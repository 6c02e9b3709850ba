"""``dra-spawner utilization``: read, compute, print."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import BinaryIO, TextIO

from dra_spawner.commands.cluster_files.input_errors import InputError
from dra_spawner.commands.cluster_files.questions import separate_questions
from dra_spawner.commands.cluster_files.reading import Progress, read_files, shown_names
from dra_spawner.commands.fitting.node_usage import ClusterUsage, SnapshotObjects, usage
from dra_spawner.commands.fitting.usage_table import to_json, usage_table
from dra_spawner.simulator.model.cluster_objects import Kind
from dra_spawner.simulator.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class UtilizationOptions:
    """Options of ``dra-spawner utilization``."""

    files: tuple[str, ...] = ()
    """Paths, or ``-`` for standard input; none means standard input."""
    as_json: bool = False
    all_names: bool = False
    weights: Mapping[str, Fraction] = field(default_factory=dict)
    """Weight of devices by device class, not negative; 1 for every other class."""


def run_utilization(options: UtilizationOptions, standard_input: BinaryIO, output: TextIO, messages: TextIO) -> int:
    """Print how full nodes are.

    Parameters
    ----------
    messages
        Stream for errors, and for the progress, which is shown on a terminal only.

    Returns
    -------
    int
        0, or 2 when the input cannot be read or has an object that the API server would refuse.
    """
    progress = Progress(messages)
    refused = ""
    try:
        common, questions = separate_questions(read_files(options.files, standard_input, progress), SnapshotObjects)
        asked = questions or [(shown_names(options.files), SnapshotObjects())]
        _check_weights(options.weights, [common, *(own for _, own in asked)])
        refused = next((problem for each in (common, *(own for _, own in asked)) for problem in each.refused), "")
        for number, found in enumerate(_answers(common, asked, options.weights)):
            progress.clear()
            if options.as_json:
                output.write(json.dumps(to_json(found), ensure_ascii=False) + "\n")
            else:
                heading = f"{found.name}\n" if len(asked) > 1 else ""
                output.write(("\n" if number else "") + heading + usage_table(found, all_names=options.all_names))
            progress.show(f"question {number + 2:,} of {len(asked):,}")
    except InputError as error:
        progress.clear()
        messages.write(f"dra-spawner utilization: {error}\n")
        return 2
    finally:
        progress.clear()
    if refused:
        problem = InputError("the API server would refuse this", 0, "", refused)
        messages.write(f"dra-spawner utilization: {problem}\n")
        return 2
    return 0


def _answers(
    common: SnapshotObjects, asked: Sequence[tuple[str, SnapshotObjects]], weights: Mapping[str, Fraction]
) -> Iterator[ClusterUsage]:
    snapshot = Snapshot(common.items.values())
    for name, own in asked:
        with snapshot.trial():
            for item in own.items.values():
                snapshot.put(item)
            yield usage(snapshot, name, weights)


def _check_weights(weights: Mapping[str, Fraction], objects: Sequence[SnapshotObjects]) -> None:
    """Raise for a weight without effect."""
    known = sorted({name for each in objects for name in each.names(Kind.DEVICE_CLASS)})
    for name in weights:
        if name not in known:
            raise InputError(
                "--weight", 0, "", f"the input has no DeviceClass {name}; it has {', '.join(known) or 'none'}"
            )
