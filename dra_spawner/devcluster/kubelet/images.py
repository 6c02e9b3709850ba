"""Fake image pulls: the images of a node, and the duration of a pull."""

from __future__ import annotations

from collections.abc import Callable

from dra_spawner.common.json_types import JsonObject

#: Seconds that a pull of an image (second argument) takes on a node (first). May raise `PullFailed`.
PullSeconds = Callable[[str, str], float]

#: Reported size of every image, as no image is really pulled.
IMAGE_SIZE_BYTES = 1_000_000_000


class PullFailed(Exception):
    """Raised if an image cannot be pulled; the message is that of the pod's event."""


def instant_pull(node: str, image: str) -> float:
    """Duration 0 for every pull."""
    return 0.0


def normalized_image(image: str) -> str:
    """The image's name with a tag, as a node reports it."""
    if "@" in image or ":" in image.rpartition("/")[2]:
        return image
    return f"{image}:latest"


def has_image(node: JsonObject, image: str) -> bool:
    """Whether ``status.images`` of `node` lists `image`."""
    name = normalized_image(image)
    return any(name in (entry.get("names") or []) for entry in node["status"].get("images") or [])


def must_pull(container: JsonObject, present: bool) -> bool:
    """Whether the kubelet pulls, by ``imagePullPolicy`` (default: Always for the tag latest, else IfNotPresent).

    Raises
    ------
    PullFailed
        If the policy is Never and the image is not present.
    """
    policy = container.get("imagePullPolicy")
    if policy is None:
        policy = "Always" if normalized_image(container.get("image", "")).endswith(":latest") else "IfNotPresent"
    if policy == "Never" and not present:
        raise PullFailed(f'Container image "{container.get("image", "")}" is not present with pull policy of Never')
    return policy == "Always" or not present
