"""The chart's objects as Helm renders them, with the names of an installation in place of placeholder words.

``python -m tests.chart.packaged_manifests`` makes ``objects.yaml`` from ``helm-values/chart``; a test compares them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources
from typing import Final

__all__ = ["BASE_URL_WORD", "HUB_WORD", "IMAGE_WORD", "NAMESPACE_WORD", "Installation", "manifest_text"]

#: Words in ``objects.yaml`` that are replaced.
NAMESPACE_WORD: Final = "the-namespace"
IMAGE_WORD: Final = "the-image:the-tag"
BASE_URL_WORD: Final = "/the-base-url/"
HUB_WORD: Final = "the-hub"

_USERS: Final = ("-users",)
_DOCUMENTS: Final = "---\n"
_NAME_LINE: Final = re.compile(r"^  name: (\S+)$", re.MULTILINE)
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_IMAGE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]*[A-Za-z0-9]")
_BASE_URL: Final = re.compile(r"/([A-Za-z0-9._~%@!$&()*+,;=-]+/?)*")


@dataclass(frozen=True, slots=True)
class Installation:
    """Where the service is installed.

    Attributes
    ----------
    namespace
        Namespace of hub and service.
    image
        Image with dra_spawner in it, and its tag.
    base_url
        The hub's base URL, as ``hub.baseUrl`` of zero-to-jupyterhub.
    hub
        Name of the hub's Service, account and Secret.
    user_namespaces
        Whether servers are in a namespace of each user.

    Raises
    ------
    ValueError
        If a value cannot be one; the message names it and what is allowed.
    """

    namespace: str
    image: str
    base_url: str = "/"
    hub: str = "hub"
    user_namespaces: bool = False

    def __post_init__(self) -> None:
        for value, pattern, title in (
            (self.namespace, _NAME, "the name of a namespace"),
            (self.hub, _NAME, "the name of the hub's Service"),
            (self.image, _IMAGE, "an image like registry.example.org/hub:1"),
            (self.base_url, _BASE_URL, "a base URL like /jupyter/"),
        ):
            if not pattern.fullmatch(value):
                raise ValueError(f"{value!r} is not {title}")


def manifest_text(installation: Installation) -> str:
    """The objects as YAML documents, for ``kubectl apply``."""
    text = resources.files(__package__).joinpath("objects.yaml").read_text(encoding="utf-8")
    if not installation.user_namespaces:
        text = _without(text, _USERS).replace('\\"user_namespaces\\":true', '\\"user_namespaces\\":false')
    base = installation.base_url.strip("/")
    values = {
        BASE_URL_WORD: f"/{base}/" if base else "/",
        NAMESPACE_WORD: installation.namespace,
        IMAGE_WORD: installation.image,
        HUB_WORD: installation.hub,
    }
    # At once: a value may have one of the words in it.
    return re.sub("|".join(map(re.escape, values)), lambda found: values[found[0]], text)


def _without(text: str, endings: tuple[str, ...]) -> str:
    """The documents whose object has a name with none of these endings."""
    kept = []
    for document in text.split(_DOCUMENTS):
        name = _NAME_LINE.search(document)
        if name is None or not name[1].endswith(endings):
            kept.append(document)
    return _DOCUMENTS.join(kept)
