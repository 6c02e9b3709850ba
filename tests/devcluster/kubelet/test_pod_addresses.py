"""Addresses of pods."""

import sys

import pytest

from dra_spawner.devcluster.kubelet.pod_addresses import LoopbackAddresses, bind_to
from tests.cluster.fake_runtime import OneAddress


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux answers on all of 127.0.0.0/8")
def test_each_pod_has_its_own():
    addresses = LoopbackAddresses(start=253)
    taken = [addresses.acquire() for _ in range(600)]
    assert len(set(taken)) == 600
    assert taken[:3] == ["127.1.0.254", "127.1.1.1", "127.1.1.2"]  # neither .255 nor .0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux answers on all of 127.0.0.0/8")
def test_block_wraps_around_and_skips_used_addresses():
    addresses = LoopbackAddresses(start=-1)
    first = addresses.acquire()
    assert first == "127.1.0.1"
    addresses.release(first)
    assert addresses.acquire() == "127.1.0.2"  # not the same again at once: an old server may still be closing


def test_one_for_all():
    addresses = OneAddress("127.0.0.1")
    assert {addresses.acquire(), addresses.acquire()} == {"127.0.0.1"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("0.0.0.0", "127.1.2.3", id="alone"),
        pytest.param("http://0.0.0.0:8888/user/a/", "http://127.1.2.3:8888/user/a/", id="in a URL"),
        pytest.param("--ip=0.0.0.0", "--ip=127.1.2.3", id="option"),
        pytest.param("http://[::]:8888/", "http://127.1.2.3:8888/", id="IPv6"),
        pytest.param("10.0.0.0", "10.0.0.0", id="another address"),
        pytest.param("10.0.0.0.0", "10.0.0.0.0", id="part of a version"),
        pytest.param("0.0.0.01", "0.0.0.01", id="longer number"),
        pytest.param("v0.0.0.0", "v0.0.0.0", id="version"),
    ],
)
def test_wildcard_becomes_the_pods_address(text: str, expected: str):
    assert bind_to("127.1.2.3", text) == expected
