"""Whether a network interface is in the server, by the kernel's list."""

from __future__ import annotations

from pathlib import Path

from dra_spawner.user_server.network_interfaces import with_present_interface
from dra_spawner.user_server.shown_devices import NetworkInterface, ShownDevice
from tests.all_of_them import all_of_them

ADDRESS = "02:00:00:00:00:0A"


def kernel(directory: Path) -> Path:
    """Interfaces ``lo`` and ``net1``, as the kernel shows them."""
    for name, address in (("lo", "00:00:00:00:00:00"), ("net1", ADDRESS.lower())):
        (directory / name).mkdir()
        (directory / name / "address").write_text(f"{address}\n")
    return directory


@all_of_them(
    "interface, present",
    {
        "there": (NetworkInterface("net1", ADDRESS), True),
        "there, its address is not known": (NetworkInterface("net1"), True),
        "not there": (NetworkInterface("net2", ADDRESS), False),
        "another one has its name": (NetworkInterface("net1", "02:00:00:00:00:0b"), False),
        "no name": (NetworkInterface("", ADDRESS), None),
        "a path": (NetworkInterface("../net1", ADDRESS), None),
        "a folder": (NetworkInterface("..", ADDRESS), None),
    },
)
def test_interfaces(tmp_path: Path, interface: NetworkInterface, present: bool | None) -> None:
    directory = tmp_path / str(len(list(tmp_path.iterdir())))
    directory.mkdir()
    found = with_present_interface(ShownDevice("dra.net", "node-a", "nic-0", network=interface), kernel(directory))
    assert found.network is not None
    assert found.network.present is present
    assert found.is_faulty is (present is False)
    assert (f"{interface.interface} is not in this server" in found.health_sentence) is (present is False)


def test_what_cannot_be_seen_is_not_known(tmp_path: Path) -> None:
    device = ShownDevice("dra.net", "node-a", "nic-0", network=NetworkInterface("net1"))
    found = with_present_interface(device, tmp_path / "none")
    assert found.network is not None
    assert (found.network.present, found.is_faulty) == (None, False)
    gpu = ShownDevice("gpu.example.com", "node-a", "gpu-0")
    assert with_present_interface(gpu, tmp_path) == gpu
