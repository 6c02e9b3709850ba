"""Settings that a hub's configuration has twice are named."""

from traitlets.config import Config

from dra_spawner.doctor.rules.settings import doubled_settings


def test_different_values_are_named() -> None:
    c = Config()
    c.KubeSpawner.image = "a"
    c.DRASpawner.image = "b"
    c.KubeSpawner.namespace = c.DRASpawner.namespace = "hub"
    c.KubeSpawner.cpu_limit = 1
    (sentence,) = doubled_settings(c)
    assert sentence.startswith("c.KubeSpawner.image and c.DRASpawner.image have different values: only c.DRASpawner")


def test_lists_that_grow_have_no_conflict() -> None:
    c = Config()
    c.KubeSpawner.volumes.append({"name": "a"})
    c.DRASpawner.volumes.append({"name": "b"})
    assert list(doubled_settings(c)) == []


def test_without_a_section() -> None:
    assert list(doubled_settings(Config())) == []
