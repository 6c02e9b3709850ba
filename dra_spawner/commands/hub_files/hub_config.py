"""The spawner's traits from a hub's configuration file, which is run as JupyterHub runs it."""

from __future__ import annotations

from pathlib import Path

from dra_spawner.commands.cluster_files.input_errors import InputError
from dra_spawner.commands.hub_files.hub_code import HubCode, run_hub_code
from dra_spawner.commands.hub_files.profiles_found import ProfilesFound

__all__ = ["profiles_of_hub_config"]


def profiles_of_hub_config(path: Path) -> ProfilesFound:
    """The profiles of a ``jupyterhub_config.py``.

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
    return ProfilesFound(str(path), listed, settings, is_filtered=callable(listed), spawner=outcome.spawner)
