"""Metadata that depends on where this checkout is published: addresses, and the README as the package index shows it.

Two variables say it, which the release workflow sets: ``DRA_SPAWNER_HOME`` is the address of the repository, and
``DRA_SPAWNER_REF`` the tag. Without them, the package has no addresses, and the README is as it is.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

# A link or a picture whose address is a path.
_LINK = re.compile(r"(?P<before>(?P<picture>!?)\[[^]]*\]\()(?P<path>(?![a-z]+:|#)[^)\s]+)(?P<after>\))")


def readme_for_an_index(text: str, home: str, ref: str) -> str:
    """The README with a badge, addresses for links and pictures, and commands that install the package."""

    def address(found: re.Match[str]) -> str:
        kind = "raw" if found["picture"] else "blob"
        return f"{found['before']}{home}/{kind}/{ref}/{found['path']}{found['after']}"

    badge = f"[![CI]({home}/actions/workflows/ci.yaml/badge.svg?branch=main)]({home}/actions/workflows/ci.yaml)"
    title, _, rest = _LINK.sub(address, text).partition("\n\n")
    return f"{title}\n\n{badge}\n\n{rest}".replace("-e '.[demo]'", "'dra-spawner[demo]'")


def addresses(home: str, ref: str) -> dict[str, str]:
    """Addresses by their labels. `dra-spawner` shows the one for issues after a defect of its own."""
    return {
        "Homepage": home,
        "Documentation": f"{home}/tree/{ref}/docs",
        "Source": home,
        "Issues": f"{home}/issues",
        # For messages that name a file: dra_spawner/common/project_links.py.
        "Files": f"{home}/blob/{ref}",
        "Changelog": f"{home}/blob/{ref}/CHANGELOG.md",
    }


class CustomMetadataHook(MetadataHookInterface):
    """Called by hatchling."""

    def update(self, metadata: dict[str, Any]) -> None:
        home, ref = os.environ.get("DRA_SPAWNER_HOME", "").rstrip("/"), os.environ.get("DRA_SPAWNER_REF", "")
        text = Path(self.root, "README.md").read_text()
        metadata["urls"] = addresses(home, ref) if home and ref else {}
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": readme_for_an_index(text, home, ref) if home and ref else text,
        }
