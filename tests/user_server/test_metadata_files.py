"""Files that drivers write into a container."""

from __future__ import annotations

import pytest

from dra_spawner.user_server.metadata_files import devices_in_files
from tests.user_server.metadata import metadata, write

ATTRIBUTES = {
    "model": {"string": "Example 40"},
    "index": {"int": 0},
    "ecc": {"bool": True},
    "names": {"strings": ["a"]},
}


def test_a_device_with_its_facts(tmp_path):
    network = {"interfaceName": "net1", "hardwareAddress": "02:00:00:00:00:01", "ips": ["10.0.0.7/24", 3]}
    write(tmp_path, metadata(attributes=ATTRIBUTES, networkData=network))
    (device,) = devices_in_files(tmp_path)
    assert (device.key, device.claim) == (("gpu.example.com", "node-a", "gpu-0"), "gpu")
    assert device.attributes == {"model": "Example 40", "index": "0", "ecc": "true", "names": '["a"]'}
    assert device.network is not None
    assert (device.network.interface, device.network.addresses) == ("net1", ("10.0.0.7/24",))


def test_the_first_version_that_is_known_counts(tmp_path):
    write(tmp_path, {"apiVersion": "metadata.resource.k8s.io/v9"}, metadata(name="gpu-1"), metadata(name="gpu-2"))
    (device,) = devices_in_files(tmp_path)
    assert device.name == "gpu-1"


def test_a_claim_by_name_is_called_by_its_directory(tmp_path):
    obj = metadata()
    del obj["podClaimName"]
    write(tmp_path, obj, claim="team", kind="resourceclaims")
    (device,) = devices_in_files(tmp_path)
    assert device.claim == "team"


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "3", "[" * 10**5, '{"apiVersion": "v1"}', '{"apiVersion": ["a"]}', "\x00"]
)
def test_a_file_without_sense_counts_as_absent(tmp_path, content):
    write(tmp_path, content)
    assert devices_in_files(tmp_path) == []


@pytest.mark.parametrize("requests", [None, 3, [3], [{"devices": 3}], [{"devices": ["x"]}]])
def test_fields_of_another_type_count_as_absent(tmp_path, requests):
    write(tmp_path, {**metadata(), "requests": requests})
    assert devices_in_files(tmp_path) == []


def test_without_files_there_are_no_devices(tmp_path):
    assert devices_in_files(tmp_path / "none") == []
