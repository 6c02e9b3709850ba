"""``dra-spawner fit``: reading, answering, printing."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, TextIO

from dra_spawner.dra.features import ALL_FEATURES, QUIRKS_1_36, QUIRKS_OFF, SCHEDULER_1_36
from dra_spawner.fit.answers import answer_all
from dra_spawner.fit.documents import Document, read_documents
from dra_spawner.fit.errors import InputError
from dra_spawner.fit.questions import gather
from dra_spawner.fit.table import table

__all__ = ["FitOptions", "run_fit"]

STANDARD_INPUT: Final = "-"
MAX_STEPS: Final = 1_000_000
"""Of the search on one node; kube-scheduler gives up after ten seconds, which is about as much."""


@dataclass(frozen=True, slots=True)
class FitOptions:
    """What was asked for on the command line."""

    files: tuple[str, ...] = ()
    """Paths, or ``-`` for standard input; none means standard input."""
    as_json: bool = False
    all_names: bool = False
    list_attributes: bool = False
    """As if the scheduler had DRAListTypeAttributes on."""
    without_quirks: bool = False
    """Decide as the API promises instead of as kube-scheduler 1.36 does."""


def run_fit(options: FitOptions, standard_input: BinaryIO, output: TextIO, messages: TextIO) -> int:
    """Answer all questions.

    Parameters
    ----------
    messages
        For what is wrong with the input, and for the progress, which is shown on a terminal only.

    Returns
    -------
    int
        0 when the claims fit on some node (of every question), 1 when not, 2 when the input cannot be read.
    """
    progress = _Progress(messages)
    files = options.files or (STANDARD_INPUT,)
    features = ALL_FEATURES if options.list_attributes else SCHEDULER_1_36
    quirks = QUIRKS_OFF if options.without_quirks else QUIRKS_1_36
    fits = True
    try:
        if STANDARD_INPUT in files and standard_input.isatty():
            raise InputError("standard input", 0, "", "is a terminal; name a file, or pipe kubectl's output in")
        asked = gather(_read(files, standard_input, progress), ", ".join(map(_shown_name, files)))
        for number, answer in enumerate(answer_all(asked, features, quirks, MAX_STEPS)):
            progress.clear()
            if options.as_json:
                output.write(json.dumps(answer.to_json(), ensure_ascii=False) + "\n")
            else:
                heading = f"{answer.name}\n" if len(asked.questions) > 1 else ""
                output.write(("\n" if number else "") + heading + table(answer, all_names=options.all_names))
            fits = answer.fits_somewhere and fits
            progress.show(f"question {number + 2:,} of {len(asked.questions):,}")
    except InputError as error:
        progress.clear()
        messages.write(f"dra-spawner fit: {error}\n")
        return 2
    finally:
        progress.clear()
    return 0 if fits else 1


def _read(files: Sequence[str], standard_input: BinaryIO, progress: _Progress) -> Iterator[Document]:
    documents = 0
    for file in files:
        progress.show(f"reading {_shown_name(file)}")
        try:
            content = standard_input.read() if file == STANDARD_INPUT else Path(file).read_bytes()
        except OSError as error:
            raise InputError(file, 0, "", error.strerror or str(error)) from None
        before = documents
        for document in read_documents(_shown_name(file), content):
            documents += 1
            progress.show(f"reading {_shown_name(file)}, {documents:,} documents")
            yield document
        if documents == before:
            raise InputError(_shown_name(file), 0, "", "has no objects in it")
    progress.show("looking for devices")


def _shown_name(file: str) -> str:
    return "standard input" if file == STANDARD_INPUT else file


class _Progress:
    """One line that is written over; on a terminal only, and not more often than is good for it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_shown = stream.isatty()
        self._length = 0
        self._next = 0.0

    def show(self, text: str) -> None:
        if self._is_shown and time.monotonic() >= self._next:
            self._stream.write(f"\r{text:{self._length}}")
            self._stream.flush()
            self._length = len(text)
            self._next = time.monotonic() + 0.1

    def clear(self) -> None:
        if self._length:
            self._stream.write(f"\r{'':{self._length}}\r")
            self._stream.flush()
            self._length = 0
