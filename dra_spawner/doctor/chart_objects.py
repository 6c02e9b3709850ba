"""The objects of this project's Helm chart with all its rights, for the names of an installation.

``python -m tests.chart.packaged_objects`` makes ``chart_objects.yaml`` from ``helm-values/chart``; a test compares
them.
"""

from __future__ import annotations

import re
from importlib import resources
from typing import Final

__all__ = ["BASE_URL_WORD", "HUB_WORD", "IMAGE_WORD", "NAMESPACE_WORD", "chart_objects_text"]

#: Words in ``chart_objects.yaml`` that are replaced.
NAMESPACE_WORD: Final = "the-namespace"
IMAGE_WORD: Final = "the-image:the-tag"
BASE_URL_WORD: Final = "/the-base-url/"
HUB_WORD: Final = "the-hub"


def chart_objects_text(namespace: str, *, hub: str = "hub", image: str = "image:tag") -> str:
    """The objects as YAML documents, for users' servers in namespaces of their own and a hub at ``/``.

    Parameters
    ----------
    namespace
        Namespace of hub and service.
    hub
        Name of the hub's Service, account and Secret.
    image
        Image of the service, and its tag.
    """
    text = resources.files(__package__).joinpath("chart_objects.yaml").read_text(encoding="utf-8")
    values = {BASE_URL_WORD: "/", NAMESPACE_WORD: namespace, IMAGE_WORD: image, HUB_WORD: hub}
    # At once: a value may have one of the words in it.
    return re.sub("|".join(map(re.escape, values)), lambda found: values[found[0]], text)
