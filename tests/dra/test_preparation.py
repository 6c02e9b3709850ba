"""What a claim with devices of several drivers is prepared for."""

from __future__ import annotations

from dra_spawner.dra.model.objects import ResourceClaim
from dra_spawner.dra.preparation import PreparedFor, prepared_for
from tests.all_of_them import all_of_them

CLAIM, CONTAINER, POD = PreparedFor
KNOWN = {"gpu": CLAIM, "cpu": CONTAINER, "nic": POD}


@all_of_them(
    "drivers, expected",
    [
        (["gpu"], CLAIM),
        (["gpu", "gpu"], CLAIM),
        (["gpu", "cpu"], CONTAINER),
        (["cpu", "nic", "gpu"], POD),
        (["gpu", "other"], POD),
        ([], POD),
    ],
)
def test_the_strictest_driver_decides(drivers: list[str], expected: PreparedFor) -> None:
    assert prepared_for(drivers, KNOWN) is expected


@all_of_them("devices, expected", [([], False), ([{}], False), ([{}, {"networkData": {"interfaceName": "a"}}], True)])
def test_a_claim_with_an_interface_is_known(devices: list[dict], expected: bool) -> None:
    claim = {"metadata": {"name": "a"}, "spec": {}, "status": {"devices": devices}}
    assert ResourceClaim.from_json(claim).status.has_network_data is expected
