"""The command ``dra-spawner whoami``, in a server where nothing but Python is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import dra_spawner
from dra_spawner.user_server.shown_devices import ShownDevices
from dra_spawner.user_server.whoami_command import lines
from tests.user_server.hub_stand_in import ANSWER, hub_that, json_answer

ROOT = Path(dra_spawner.__file__).parents[1]
PROGRAM = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from dra_spawner.cli import main; sys.exit(main())"


def whoami(environment: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    # -I -S: without the packages of this machine.
    command = [sys.executable, "-I", "-S", "-c", PROGRAM, "whoami", *options]
    return subprocess.run(command, env={"PATH": os.environ["PATH"], **environment}, capture_output=True, text=True)


SHOWN = """\
Server of ada on node-a, prepared before it started

gpu-0 (Example 40)
  share      10 GiB of 40 GiB memory
  enforced   Nothing enforces it.
  health     The machine reports that this device works.
  for        gpu

nic-0
  health     WARNING: The network interface net1 is not in this server, although it was given to it. A new start of the server may help; else tell your administrator.
  for        nic
  interface  net1, not in this server
  hardware   02:00:00:00:00:01
  addresses  10.42.0.7/24
"""


@pytest.mark.promise("`dra-spawner whoami` shows a server's devices.")
def test_the_devices_are_shown():
    with hub_that(json_answer(ANSWER)) as environment:
        text, found = whoami(environment), whoami(environment, "--format", "json")
    assert (text.returncode, text.stdout, text.stderr) == (0, SHOWN, "")
    body = json.loads(found.stdout)
    assert (body["user"], body["known"], body["warm"]) == ("ada", True, True)
    assert [each["faulty"] for each in body["devices"]] == [False, True]


def test_an_interface_that_is_there_is_found():
    """Each machine has the interface ``lo``, with this address."""
    nic = {**ANSWER["devices"][1], "health": {"state": "unknown", "sentence": "Nothing reports it."}}
    nic["network"] = {"interface": "lo", "hardware_address": "00:00:00:00:00:00", "addresses": []}
    with hub_that(json_answer({**ANSWER, "devices": [nic]})) as environment:
        text, found = whoami(environment), whoami(environment, "--format", "json")
    assert "  interface  lo, found in this server" in text.stdout
    assert "WARNING" not in text.stdout
    assert "  for  " not in text.stdout, "one device is not told apart by a word of the profile"
    (device,) = json.loads(found.stdout)["devices"]
    assert (device["network"]["present"], device["health"], device["faulty"]) == (True, "unknown", False)


def test_unknown_devices_are_reported():
    found = whoami({})
    assert (found.returncode, found.stdout) == (1, "Server\n  devices not known\n")
    assert found.stderr.startswith("dra-spawner whoami: This is no server of JupyterHub")
    assert json.loads(whoami({}, "--format", "json").stdout)["known"] is False


def test_a_server_without_devices():
    environment = {"JUPYTERHUB_USER": "ada", "JUPYTERHUB_SERVER_NAME": "two"}
    assert list(lines(ShownDevices(), environment)) == ["Server two of ada", "  no devices"]


def test_a_server_that_ends():
    later, soon = ShownDevices(ends_in_seconds=7500), ShownDevices(ends_in_seconds=599, ends_soon=True)
    assert list(lines(later, {}))[1] == "  This server ends in 2 h 5 min."
    assert list(lines(soon, {}))[1] == "  This server ends in 9 min. Save your work."
