"""The files that a command reads, and its progress on a terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final, TextIO

from dra_spawner.commands.cluster_files.documents import Document, read_documents
from dra_spawner.commands.cluster_files.input_errors import InputError
from dra_spawner.commands.cluster_files.limits import CLUSTER_FILES, Limits

_STANDARD_INPUT: Final = "-"
_CHUNK_BYTES: Final = 2**20


class Progress:
    """A line that is overwritten; on a terminal only, and at a limited rate."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_shown = stream.isatty()
        self._length = 0
        self._next = 0.0

    def begin(self, text: str) -> None:
        """Show the text of work that may take long, whatever was shown a moment ago."""
        self._next = 0.0
        self.show(text)

    def show(self, text: str) -> None:
        """Write or overwrite the line."""
        if self._is_shown and time.monotonic() >= self._next:
            self._stream.write(f"\r{text:{self._length}}")
            self._stream.flush()
            self._length = len(text)
            self._next = time.monotonic() + 0.1

    def clear(self) -> None:
        """Erase the line before other output."""
        if self._length:
            self._stream.write(f"\r{'':{self._length}}\r")
            self._stream.flush()
            self._length = 0


def read_files(
    files: Sequence[str], standard_input: BinaryIO, progress: Progress, limits: Limits = CLUSTER_FILES
) -> Iterator[Document]:
    """The documents in files, or in standard input.

    Raises
    ------
    InputError
        If a file cannot be read, is empty, or exceeds a limit.
    """
    files = files or (_STANDARD_INPUT,)
    if _STANDARD_INPUT in files and standard_input.isatty():
        raise InputError("standard input", 0, "", "is a terminal; name a file, or pipe kubectl's output in")
    documents = 0
    for file in files:
        progress.show(f"reading {_shown_name(file)}")
        before = documents
        for document in read_documents(_shown_name(file), _read_text(file, standard_input, limits), limits):
            documents += 1
            progress.show(f"reading {_shown_name(file)}, {documents:,} documents")
            yield document
        if documents == before:
            raise InputError(_shown_name(file), 0, "", "has no objects in it")
    progress.begin("looking for devices")


def _read_text(file: str, standard_input: BinaryIO, limits: Limits) -> str:
    name = _shown_name(file)
    try:
        if file == _STANDARD_INPUT:
            content = _read_bytes(name, standard_input, limits)
        else:
            with Path(file).open("rb") as stream:
                content = _read_bytes(name, stream, limits)
    except (OSError, ValueError) as error:
        # A ValueError is a NUL in the name.
        raise InputError(name, 0, "", getattr(error, "strerror", None) or str(error)) from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(name, line, "", "is not UTF-8 text") from None


def _read_bytes(name: str, stream: BinaryIO, limits: Limits) -> bytearray:
    content = bytearray()
    while chunk := stream.read(_CHUNK_BYTES):
        # Stop early at devices and other endless files.
        if (position := chunk.find(0)) >= 0:
            line = content.count(b"\n") + chunk.count(b"\n", 0, position) + 1
            raise InputError(name, line, "", "has a NUL character: it is no text, or not UTF-8")
        content += chunk
        if len(content) > limits.file_bytes:
            raise InputError(name, 0, "", f"has more than {limits.file_bytes // 2**20:,} MiB, which is the limit")
    return content


def shown_names(files: Sequence[str]) -> str:
    """Names of the files for a message."""
    return ", ".join(map(_shown_name, files or (_STANDARD_INPUT,)))


def _shown_name(file: str) -> str:
    return "standard input" if file == _STANDARD_INPUT else file
