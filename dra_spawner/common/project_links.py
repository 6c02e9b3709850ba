"""Addresses of pages and files, for messages: an installed package has neither ``docs/`` nor ``helm-values/``."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, metadata

from dra_spawner import names

#: Label of the address below which the files of a release are; hatch_build.py writes it.
FILES = "Files"


def project_links() -> dict[str, str]:
    """Addresses in the package's metadata by their labels; empty for a checkout."""
    try:
        links = metadata(names.PROJECT).get_all("Project-URL") or []
    except PackageNotFoundError:
        return {}
    return dict(link.split(", ", 1) for link in links if ", " in link)


def where(path: str) -> str:
    """Return the address of a file of this project, or its path where a checkout is used."""
    base = project_links().get(FILES, "")
    return f"{base}/{path}" if base else path
