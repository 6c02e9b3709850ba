"""The sources of profiles, and how to read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from dra_spawner.check.helm_values import is_helm_values, profiles_of_values
from dra_spawner.check.hub_config import profiles_of_hub_config
from dra_spawner.check.profile_limits import MAX_VALUES, check_size
from dra_spawner.check.profiles_found import ProfilesFound
from dra_spawner.fit.input_errors import InputError
from dra_spawner.fit.limits import PROFILE_FILES
from dra_spawner.fit.reading import Progress, read_files, shown_names
from dra_spawner.profiles.choices import TRAIT
from dra_spawner.profiles.merging import MergeConflict, merge_overrides

__all__ = ["DEFAULT_FILE", "kind_of_object", "read_profiles"]

#: File to read when none is named.
DEFAULT_FILE = "jupyterhub_config.py"

_LOADING = "loading JupyterHub"


def read_profiles(
    files: Sequence[str], standard_input: BinaryIO, progress: Progress, max_values: int = MAX_VALUES
) -> ProfilesFound:
    """The profiles in a hub's configuration, Helm values, or a list by itself.

    Parameters
    ----------
    files
        One file, or several files of Helm values, which are merged as ``helm -f`` merges them. None means the
        configuration file of a hub in the current directory.
    max_values
        See `check_size`.

    Raises
    ------
    InputError
        If a file cannot be read, has no profiles, or exceeds the limits.
    """
    found = _read(files, standard_input, progress)
    check_size(found, max_values)
    return found


def _read(files: Sequence[str], standard_input: BinaryIO, progress: Progress) -> ProfilesFound:
    files = tuple(files) or (DEFAULT_FILE,)
    if any(file.endswith(".py") for file in files):
        if len(files) > 1:
            raise InputError(files[1], 0, "", "only Helm values can be several files; a hub has one configuration file")
        if not Path(files[0]).is_file():
            raise InputError(
                files[0], 0, "", "the file does not exist; name the hub's configuration, Helm values or a list"
            )
        progress.begin(_LOADING)
        return profiles_of_hub_config(Path(files[0]))
    documents = list(read_files(files, standard_input, progress, PROFILE_FILES))
    values = [document.value for document in documents]
    for document in documents:
        if kind := kind_of_object(document.value):
            problem = f"this is a {kind}; allowed: a hub's configuration, Helm values, or profiles"
            raise InputError(document.file, 0, "", problem)
    progress.begin(_LOADING)
    if all(isinstance(value, Mapping) and is_helm_values(value) for value in values):
        merged: dict[str, Any] = {}
        for document, value in zip(documents, values, strict=True):
            assert isinstance(value, Mapping)
            try:
                merged = merge_overrides(merged, value)
            except MergeConflict as conflict:
                path = conflict.path.removeprefix(".")
                problem = "cannot be merged: one file has a mapping here, another a single value"
                raise InputError(document.file, 0, path, problem) from None
        return profiles_of_values(merged, shown_names(files))
    if len(documents) > 1:
        raise InputError(documents[1].file, 0, "", "only Helm values can be several documents (hub: and singleuser:)")
    return _plain(documents[0].value, documents[0].file)


def kind_of_object(value: object) -> str:
    """Kind of an object of the Kubernetes API; empty for any other value."""
    if isinstance(value, Mapping) and isinstance(value.get("apiVersion"), str) and isinstance(value.get("kind"), str):
        return str(value["kind"])
    return ""


_LISTS = ("profile_list", "profileList")


def _plain(value: object, file: str) -> ProfilesFound:
    """A list of profiles, a mapping with one, or claims."""
    if isinstance(value, list):
        return ProfilesFound(file, value, {})
    if not isinstance(value, Mapping):
        raise InputError(file, 0, "", "is neither a profile_list nor device_claims nor Helm values")
    for name in _LISTS:
        if name in value:
            settings = {key: each for key, each in value.items() if key != name}
            return ProfilesFound(file, value[name], settings, list_path=name)
    if TRAIT in value:
        return ProfilesFound(file, None, dict(value))
    return ProfilesFound(file, None, {TRAIT: dict(value)})
