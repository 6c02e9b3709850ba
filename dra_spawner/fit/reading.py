"""Reading the files that a command names, with its progress on a terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final, TextIO

from dra_spawner.fit.documents import Document, read_documents
from dra_spawner.fit.errors import InputError

__all__ = ["Progress", "read_files", "shown_names"]

_STANDARD_INPUT: Final = "-"


class Progress:
    """One line that is written over; on a terminal only, and not more often than is good for it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_shown = stream.isatty()
        self._length = 0
        self._next = 0.0

    def show(self, text: str) -> None:
        """Write the line, or over it."""
        if self._is_shown and time.monotonic() >= self._next:
            self._stream.write(f"\r{text:{self._length}}")
            self._stream.flush()
            self._length = len(text)
            self._next = time.monotonic() + 0.1

    def clear(self) -> None:
        """Wipe the line before something else is written."""
        if self._length:
            self._stream.write(f"\r{'':{self._length}}\r")
            self._stream.flush()
            self._length = 0


def read_files(files: Sequence[str], standard_input: BinaryIO, progress: Progress) -> Iterator[Document]:
    """The documents in files, or in standard input.

    Raises
    ------
    InputError
        When a file cannot be read, or has nothing in it.
    """
    files = files or (_STANDARD_INPUT,)
    if _STANDARD_INPUT in files and standard_input.isatty():
        raise InputError("standard input", 0, "", "is a terminal; name a file, or pipe kubectl's output in")
    documents = 0
    for file in files:
        progress.show(f"reading {_shown_name(file)}")
        try:
            content = standard_input.read() if file == _STANDARD_INPUT else Path(file).read_bytes()
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


def shown_names(files: Sequence[str]) -> str:
    """What to call these files together."""
    return ", ".join(map(_shown_name, files or (_STANDARD_INPUT,)))


def _shown_name(file: str) -> str:
    return "standard input" if file == _STANDARD_INPUT else file
