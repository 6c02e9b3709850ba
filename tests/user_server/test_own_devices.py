"""Devices from the hub, and from files of drivers."""

from __future__ import annotations

from dra_spawner.user_server.own_devices import devices_of_server, is_hub_server
from tests.user_server.hub_stand_in import ANSWER, hub_that, json_answer
from tests.user_server.metadata import metadata, write


def test_facts_of_drivers_complete_the_answer(tmp_path):
    write(tmp_path, metadata(attributes={"uuid": {"string": "u"}}))
    with hub_that(json_answer(ANSWER)) as environment:
        found = devices_of_server(environment, tmp_path)
    gpu, nic = found.devices
    assert (gpu.attributes, gpu.product, gpu.health) == ({"uuid": "u"}, "Example 40", "healthy")
    assert nic.attributes == {}


def test_a_device_that_the_hub_does_not_know_is_shown(tmp_path):
    write(tmp_path, metadata(name="gpu-7"))
    with hub_that(json_answer(ANSWER)) as environment:
        assert [each.name for each in devices_of_server(environment, tmp_path).devices] == ["gpu-0", "nic-0", "gpu-7"]


def test_without_the_hub_devices_are_read_from_files(tmp_path):
    write(tmp_path, metadata())
    found = devices_of_server({}, tmp_path)
    assert found.known
    assert found.sentence.startswith("Share, enforcement and health are not known. This is no server of JupyterHub")
    assert [each.name for each in found.devices] == ["gpu-0"]


def test_without_both_nothing_is_known(tmp_path):
    found = devices_of_server({}, tmp_path / "none")
    assert (found.known, found.devices) == (False, ())
    assert not is_hub_server({}, tmp_path / "none")
    assert is_hub_server({}, tmp_path)
