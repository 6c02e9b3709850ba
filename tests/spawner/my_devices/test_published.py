"""Devices by name, while drivers publish anew."""

from __future__ import annotations

from dra_spawner.dra.model.devices import PoolId
from dra_spawner.spawner.my_devices.published import PublishedDevices
from tests.spawner.my_devices.objects import GPU, gpu, slice_of


def test_the_newest_generation_counts():
    old, new = slice_of(gpu(), generation=1), slice_of(gpu("gpu-1"), generation=2, name="t")
    for slices in ([old, new], [new, old]):
        found = PublishedDevices(slices).find(GPU)
        assert found.device is None
        assert found.is_gone


def test_nothing_is_gone_from_a_pool_that_is_not_complete():
    assert not PublishedDevices([slice_of(gpu("gpu-1"), count=2)]).find(GPU).is_gone


def test_a_pool_that_is_not_known_says_nothing():
    known = PublishedDevices([])
    assert not known.has_pool(PoolId(GPU.driver, GPU.pool))
    assert not known.find(GPU).is_gone
