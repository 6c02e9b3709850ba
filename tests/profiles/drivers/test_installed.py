"""Packages add drivers by entry point: each test installs one, as pip does, into a directory on the path."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dra_spawner.cli import main
from dra_spawner.profiles.drivers.installed import GROUP, DriverNotUsable, installed_drivers

MODULE = """
from dra_spawner.profiles.drivers import Driver
from dra_spawner.profiles.drivers.vocabulary import KnownClass
from dra_spawner.profiles.findings import Level, LintRule

OLD_FIRMWARE = LintRule("acme-old-firmware", (Level.WARNING,), False, "Acme: a mode that old firmware lacks")

def firmware(driver, situation):
    for claim in situation.claims:
        for request in driver.requests(claim, situation.published):
            yield situation.finding(OLD_FIRMWARE, request.path, "Firmware before 2.0 lacks this mode.")

DRIVER = Driver(
    name="gpu.acme.example",
    title="Acme GPUs",
    classes=(KnownClass("acme.example"),),
    rules=(firmware,),
    own_rules=(OLD_FIRMWARE,),
)
NVIDIA = Driver(name="gpu.nvidia.com", title="a newer release", classes=(KnownClass("gpu.nvidia.com"),))
"""

PROFILES = """
- display_name: Acme
  kubespawner_override:
    device_claims:
      gpu: {device_class: acme.example}
"""


def install(directory: Path, *entries: str, package: str = "acme_driver", source: str = MODULE) -> None:
    information = directory / f"{package}-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("\n".join((f"[{GROUP}]", *entries)) + "\n")
    (directory / f"{package}.py").write_text(source)


#: Several commands in one process: to import what they need takes longer than what they do.
COMMANDS = """
import json, sys
from dra_spawner.cli import main
for arguments in json.loads(sys.argv[1]):
    code = main(arguments)
    print("\f", end="", flush=True)
sys.exit(code)
"""


def check(directory: Path, *commands: tuple[str, ...], profiles: str = PROFILES) -> subprocess.CompletedProcess[str]:
    """Check with each of the arguments, in a process for which the package is installed; a form feed ends each."""
    (directory / "profiles.yaml").write_text(profiles)
    arguments = [["check", *command, "profiles.yaml"] for command in commands or [()]]
    return subprocess.run(
        [sys.executable, "-c", COMMANDS, json.dumps(arguments)],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(directory)},
        capture_output=True,
        text=True,
        timeout=240,
    )


def test_an_installed_driver_is_checked_like_a_shipped_one(tmp_path: Path):
    install(tmp_path, "acme = acme_driver:DRIVER")
    done = check(tmp_path, ("--format", "json"), ("--format", "json", "--ignore", "acme-old-firmware"))
    assert done.returncode == 0, done.stderr
    output, ignored, _ = done.stdout.split("\f")
    (choice,) = json.loads(output)["choices"]
    (finding,) = (each for each in choice["findings"] if each["rule"] == "acme-old-firmware")
    assert finding["path"].endswith("device_claims.gpu")
    assert json.loads(ignored)["choices"]
    assert "acme-old-firmware" not in ignored


def test_without_the_package_its_rule_is_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "profiles.yaml").write_text(PROFILES)
    assert main(["check", "--ignore", "acme-old-firmware", str(tmp_path / "profiles.yaml")]) == 2
    assert "there is no rule acme-old-firmware" in capsys.readouterr().err


def test_an_installed_driver_replaces_a_shipped_one_of_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    wrong = """
- display_name: NVIDIA
  kubespawner_override:
    device_claims:
      gpu:
        requests: {gpu: {device_class: gpu.nvidia.com}}
        config: [{driver: gpu.nvidia.com, parameters: {kind: New}}]
"""
    (tmp_path / "profiles.yaml").write_text(wrong)
    main(["check", str(tmp_path / "profiles.yaml")])
    assert "driver-parameters" in capsys.readouterr().out
    install(tmp_path, "nvidia = acme_driver:NVIDIA")
    done = check(tmp_path, profiles=wrong)
    assert "driver-parameters" not in done.stdout, done.stderr
    assert "nothing found in 1 choice" in done.stdout


def test_a_package_that_cannot_be_used_is_named(tmp_path: Path):
    install(tmp_path, "acme = acme_driver:DRIVER", source="import not_there")
    done = check(tmp_path)
    assert (done.returncode, done.stdout) == (2, "\f")
    assert done.stderr == (
        "dra-spawner check: The entry point acme = acme_driver:DRIVER of acme_driver 1.0 (group dra_spawner.drivers)"
        " cannot be loaded, so repair or uninstall its package: ModuleNotFoundError: No module named 'not_there'\n"
    )


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        pytest.param(["a = rejected_a:OLD_FIRMWARE"], "names a LintRule, not a Driver", id="another object"),
        pytest.param(["a = rejected_b:ABSENT"], "has no attribute 'ABSENT'", id="nothing"),
        pytest.param(
            ["a = rejected_c:DRIVER", "b = rejected_c:DRIVER"],
            "both add the driver gpu.acme.example: uninstall one",
            id="one driver twice",
        ),
    ],
)
def test_entries_that_are_not_one_driver_are_refused(tmp_path: Path, monkeypatch, entries: list[str], message: str):
    package = entries[0].partition("= ")[2].partition(":")[0]
    install(tmp_path, *entries, package=package)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(DriverNotUsable, match=message):
        installed_drivers()
