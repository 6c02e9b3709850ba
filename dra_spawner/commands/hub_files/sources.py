"""The sources of profiles, and how to read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from dra_spawner.commands.cluster_files.documents import Document
from dra_spawner.commands.cluster_files.input_errors import InputError
from dra_spawner.commands.cluster_files.limits import PROFILE_FILES
from dra_spawner.commands.cluster_files.reading import Progress, read_files, shown_names
from dra_spawner.commands.hub_files.helm_values import profiles_of_values
from dra_spawner.commands.hub_files.hub_code import HubCode, run_hub_code
from dra_spawner.commands.hub_files.profile_limits import MAX_VALUES, check_size
from dra_spawner.commands.hub_files.profiles_found import ProfilesFound
from dra_spawner.commands.hub_files.service_chart import ServiceValues, service_of_hub, services_in
from dra_spawner.commands.hub_files.values_tree import (
    LIST_NAMES,
    hubs_in,
    is_claims,
    lists_in,
    merged_as_helm,
    shown_keys,
)
from dra_spawner.profiles.choices import TRAIT
from dra_spawner.profiles.common_options import with_common_options
from dra_spawner.profiles.findings import Finding, Level
from dra_spawner.profiles.lint import hub_rules

#: File to read when none is named.
DEFAULT_FILE = "jupyterhub_config.py"

_MAX_HUBS = 100
_LOADING = "loading JupyterHub profiles"


def read_profiles(
    files: Sequence[str],
    standard_input: BinaryIO,
    progress: Progress,
    max_values: int = MAX_VALUES,
    *,
    runs_code: bool = True,
) -> tuple[ProfilesFound, ...]:
    """The profiles in a hub's configuration, Helm values, or a list by itself; of each hub, if there are several.

    Parameters
    ----------
    files
        One file, or several files of Helm values, which are merged as ``helm -f`` merges them. None means the
        configuration file of a hub in the current directory.
    max_values
        See `check_size`.
    runs_code
        Whether code of Helm values is run.

    Raises
    ------
    InputError
        If a file cannot be read, has no profiles, or exceeds the limits.
    """
    found = tuple(
        replace(each, profile_list=with_common_options(each.profile_list, each.settings.get("common_profile_options")))
        for each in _read(files, standard_input, progress, runs_code)
    )
    for each in found:
        check_size(each, max_values)
    return found


def _read(
    files: Sequence[str], standard_input: BinaryIO, progress: Progress, runs_code: bool
) -> Iterator[ProfilesFound]:
    files = tuple(files) or (DEFAULT_FILE,)
    if any(file.endswith(".py") for file in files):
        yield from _of_code(files, progress, runs_code)
        return
    documents = list(read_files(files, standard_input, progress, PROFILE_FILES))
    for document in documents:
        if kind := kind_of_object(document.value):
            problem = f"this is a {kind}; allowed: a hub's configuration, Helm values, or profiles"
            raise InputError(document.file, 0, "", problem)
    progress.begin(_LOADING)
    merged = _merged(documents)
    hubs, services = hubs_in(merged), tuple(services_in(merged))
    if len(hubs) > _MAX_HUBS:
        raise InputError(files[0], 0, hubs[0][0], f"{len(hubs):,} hubs are in these values; the maximum is {_MAX_HUBS}")
    if hubs:
        for prefix, values in hubs:
            found = profiles_of_values(prefix, values, shown_names(files), runs_code=runs_code)
            findings = (*found.findings, *_unread_documents(documents))
            yield replace(found, findings=findings, service=service_of_hub(prefix, services))
        yield from _alone(services, [service_of_hub(prefix, services) for prefix, _ in hubs], shown_names(files))
    elif services and not any(True for _ in lists_in(merged)):
        yield from _alone(services, (), shown_names(files))
    elif len(documents) > 1:
        raise InputError(documents[1].file, 0, "", "only Helm values can be several documents (hub: and singleuser:)")
    else:
        yield from _plain(documents[0].value, documents[0].file)


def _of_code(files: Sequence[str], progress: Progress, runs_code: bool) -> Iterator[ProfilesFound]:
    """The configuration of a hub, of the service, or of both."""
    if other := next((file for file in files if not file.endswith(".py")), ""):
        raise InputError(other, 0, "", "only Helm values can be several files; a hub has one configuration file")
    for file in files:
        if not Path(file).is_file():
            raise InputError(
                file, 0, "", "the file does not exist; name the hub's configuration, Helm values or a list"
            )
        if not runs_code:
            raise InputError(file, 0, "", "is code, which --without-code forbids to run")
    progress.begin(_LOADING)
    found = [profiles_of_hub_config(Path(file)) for file in files]
    services, hubs = ([each for each in found if each.is_service_alone is alone] for alone in (True, False))
    for several in (services, hubs):
        if len(several) > 1:
            problem = "a hub and its service have one configuration file each"
            raise InputError(several[1].source, 0, "", problem)
    if services and hubs:
        source = shown_names(files)
        yield replace(hubs[0], source=source, service=services[0].service)
    else:
        yield from found


def _alone(
    services: Sequence[ServiceValues], of_hubs: Sequence[ServiceValues | None], source: str
) -> Iterator[ProfilesFound]:
    """Services without a hub in these files, or with one that is not known."""
    for each in services:
        if each not in of_hubs:
            yield ProfilesFound(source, None, {}, service=each, is_service_alone=True)


def _merged(documents: Sequence[Document]) -> dict[str, Any]:
    """All documents merged as Helm merges its files; empty if one of them cannot be Helm values."""
    merged: dict[str, Any] = {}
    for document in documents:
        if not isinstance(document.value, Mapping) or any(name in document.value for name in (*LIST_NAMES, TRAIT)):
            return {}
        merged = merged_as_helm(merged, document.value)
    return merged


def _unread_documents(documents: Sequence[Document]) -> Iterator[Finding]:
    """A finding for each file of several documents."""
    counts = Counter(document.file for document in documents)
    for file, count in counts.items():
        if count > 1:
            message = f"has {count} documents: Helm 3 reads only the first of a file; here all are merged"
            yield hub_rules.HUB_VALUES.finding(file, message, Level.WARNING)


def kind_of_object(value: object) -> str:
    """Kind of an object of the Kubernetes API; empty for any other value."""
    if isinstance(value, Mapping) and isinstance(value.get("apiVersion"), str) and isinstance(value.get("kind"), str):
        return str(value["kind"])
    return ""


def _plain(value: object, file: str) -> Iterator[ProfilesFound]:
    """A list of profiles, a mapping with one or several below any keys, or claims."""
    is_found = False
    if isinstance(value, list):
        yield ProfilesFound(file, value, {})
        return
    if not isinstance(value, Mapping):
        raise InputError(file, 0, "", "is neither a profile_list nor device_claims nor Helm values")
    for path, name, around in lists_in(value):
        settings = {key: each for key, each in around.items() if key != name}
        yield ProfilesFound(file, around[name], settings, f"{path}{name}", path.removesuffix("."))
        is_found = True
    if is_found:
        return
    if TRAIT in value:
        yield ProfilesFound(file, None, dict(value))
        return
    if not is_claims(value):
        raise InputError(
            file,
            0,
            "",
            f"is a mapping with {shown_keys(value)}, in which there is nothing to check; allowed: values of "
            "zero-to-jupyterhub (hub: or singleuser:, also in an umbrella chart), a profile_list, or claims "
            "by name, each with the keys of device_claims",
        )
    yield ProfilesFound(file, None, {TRAIT: dict(value)})


def profiles_of_hub_config(path: Path) -> ProfilesFound:
    """The profiles of a ``jupyterhub_config.py``, or the settings of a configuration file of the service.

    Raises
    ------
    InputError
        If it cannot be run; the error has the line.
    """
    outcome = run_hub_code(HubCode(file=str(path.resolve())))
    for problem in outcome.problems:
        raise InputError(str(path), problem.line, "", problem.sentence_end)
    settings = dict(outcome.settings)
    listed = settings.pop("profile_list", None)
    service = ServiceValues.of_config(outcome.service) if outcome.service else None
    if service is not None and listed is None and not settings:
        return ProfilesFound(str(path), None, {}, service=service, is_service_alone=True)
    is_filtered = callable(listed)
    return ProfilesFound(str(path), listed, settings, is_filtered=is_filtered, spawner=outcome.spawner, service=service)
