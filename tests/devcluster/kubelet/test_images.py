"""Which images are pulled."""

from typing import Any

import pytest

from dra_spawner.devcluster.kubelet.images import PullFailed, has_image, must_pull, normalized_image


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("busybox", "busybox:latest"),
        ("busybox:1", "busybox:1"),
        ("host:5000/busybox", "host:5000/busybox:latest"),
        ("busybox@sha256:0", "busybox@sha256:0"),
    ],
)
def test_normalized_image(image: str, expected: str):
    assert normalized_image(image) == expected


@pytest.mark.parametrize(
    ("container", "present", "pulls"),
    [
        pytest.param({"image": "a:1"}, False, True, id="missing"),
        pytest.param({"image": "a:1"}, True, False, id="there"),
        pytest.param({"image": "a"}, True, True, id="latest is always pulled"),
        pytest.param({"image": "a:1", "imagePullPolicy": "Always"}, True, True, id="always"),
        pytest.param({"image": "a", "imagePullPolicy": "IfNotPresent"}, True, False, id="latest, if not present"),
        pytest.param({"image": "a:1", "imagePullPolicy": "Never"}, True, False, id="never, and there"),
    ],
)
def test_must_pull(container: dict[str, Any], present: bool, pulls: bool):
    assert must_pull(container, present) is pulls


def test_never_and_missing():
    with pytest.raises(PullFailed, match='"a:1" is not present with pull policy of Never'):
        must_pull({"image": "a:1", "imagePullPolicy": "Never"}, False)


def test_has_image():
    node = {"status": {"images": [{"names": ["a:latest", "a@sha256:0"]}]}}
    assert [has_image(node, image) for image in ("a", "a:latest", "a:1")] == [True, True, False]
    assert not has_image({"status": {}}, "a")
