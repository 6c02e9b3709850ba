"""Reads a description of kinds of nodes, which is the file of ``dra-spawner replay``."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Final

from dra_spawner.commands.cluster_files.documents import read_documents
from dra_spawner.commands.cluster_files.input_errors import InputError
from dra_spawner.commands.cluster_files.limits import PROFILE_FILES
from dra_spawner.commands.replaying.cluster_file import ClusterFile, parse_cluster

_LONGEST: Final = timedelta(days=7)


def read_description(file: str) -> ClusterFile:
    """The description in a file.

    Raises
    ------
    InputError
        If it cannot be read or is invalid, or if a time is longer than a week.
    """
    try:
        text = Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        problem = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InputError(file, 0, "", f"cannot be read: {problem}") from None
    documents = tuple(read_documents(file, text, PROFILE_FILES))
    if len(documents) != 1:
        raise InputError(file, 0, "", f"has {len(documents)} documents; it must have one")
    found = parse_cluster(documents[0], has_groups=False)
    for number, kind in enumerate(found.kinds):
        if max(*kind.lead_times, kind.image_time) > _LONGEST:
            raise documents[0].error(("nodes", number), "has a time of more than a week")
    return found
