"""Pretended image pulls: the images of a node, and the time of a pull."""

from __future__ import annotations

from collections.abc import Callable

from dra_spawner.json_types import JsonObject

#: Seconds that a pull of an image (second argument) takes on a node (first). May raise `PullFailed`.
PullSeconds = Callable[[str, str], float]

#: Size that is shown for every image, as none is pulled.
IMAGE_SIZE_BYTES = 1_000_000_000


class PullFailed(Exception):
    """Raised where an image cannot be pulled; the message is that of the pod's event."""


def instant_pull(node: str, image: str) -> float:
    """Pull every image in no time."""
    return 0.0


def normalized_image(image: str) -> str:
    """The image's name as a node reports it: with a tag."""
    if "@" in image or ":" in image.rpartition("/")[2]:
        return image
    return f"{image}:latest"


def has_image(node: JsonObject, image: str) -> bool:
    """Whether ``status.images`` of `node` lists `image`."""
    name = normalized_image(image)
    return any(name in (entry.get("names") or []) for entry in node["status"].get("images") or [])


def must_pull(container: JsonObject, present: bool) -> bool:
    """Whether the kubelet asks the registry, by ``imagePullPolicy`` (default: Always only for the tag latest)."""
    policy = container.get("imagePullPolicy")
    if policy is None:
        policy = "Always" if normalized_image(container.get("image", "")).endswith(":latest") else "IfNotPresent"
    if policy == "Never" and not present:
        raise PullFailed(f'Container image "{container.get("image", "")}" is not present with pull policy of Never')
    return policy == "Always" or not present
