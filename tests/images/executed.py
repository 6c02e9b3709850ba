"""Executes the commands of the images' RUN lines: ``python -m tests.images.executed``. The gate runs it, with an index.

No image is built: there is no registry here. An environment with the versions of zero-to-jupyterhub's hub image stands
for that image, but for psycopg2, which would be compiled.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.images.containerfile import IMAGES, LIMIT, ROOT, execute, read_containerfile

PINS = Path(__file__).parent / "z2jh_pins"
#: Packages that are not in the image.
ADDED = frozenset({"dra-spawner", "google-re2", "ical", "shtab", "tzdata", "typing-inspection"})
#: How this machine reaches its package index.
_OF_PIP = {
    name: value for name, value in os.environ.items() if name.startswith("PIP_") or name.endswith(("_proxy", "_PROXY"))
}
_QUIET = {"PIP_QUIET": "1", "PIP_ROOT_USER_ACTION": "ignore"}
_EXCLUDED = re.compile(r"--exclude (\S+)")


def versions_of(python: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Versions by package, as this interpreter sees them."""
    program = (
        "import importlib.metadata as m; print(*(f\"{d.metadata['Name']}=={d.version}\" for d in m.distributions()))"
    )
    done = subprocess.run(
        [python, "-c", program], env=dict(environment), capture_output=True, text=True, check=True, timeout=LIMIT
    )
    # The first one counts where there are two.
    return dict(each.lower().replace("_", "-").split("==") for each in reversed(done.stdout.split()))


@contextmanager
def hub_environment(directory: Path, version: str) -> Iterator[Path]:
    """A copy of this Python with the packages of a hub image; it is removed afterwards.

    It is no virtual environment, as the image's Python is none: those have no packages of their users.
    """
    environment, library = (
        directory / f"hub-{version}",
        Path("lib", f"python{sys.version_info[0]}.{sys.version_info[1]}"),
    )
    (environment / "bin").mkdir(parents=True)
    for name in ("python", "python3"):
        shutil.copy2(Path(sys.base_prefix, "bin", library.name), environment / "bin" / name)
    unneeded = shutil.ignore_patterns("site-packages", "test", "tests", "__pycache__", "config-*", "idlelib", "tkinter")
    shutil.copytree(sys.base_prefix / library, environment / library, symlinks=True, ignore=unneeded)
    (environment / library / "site-packages").mkdir()
    pins = [each for each in (PINS / f"{version}.txt").read_text().split() if not each.startswith("psycopg2==")]
    # Not part of the test: uv is quick, and the image is built by others.
    install = [sys.executable, "-m", "uv", "pip", "install", "-q", "--python", str(environment / "bin" / "python")]
    subprocess.run([*install, "--break-system-packages", "pip", *pins], check=True, timeout=LIMIT)
    try:
        yield environment
    finally:
        shutil.rmtree(environment)


def path_of(environment: Path, **more: str) -> dict[str, str]:
    """The variables of a process in it, as the image has them: the environment of this process counts for nothing."""
    return {"PATH": f"{environment / 'bin'}:/usr/bin:/bin", "HOME": str(environment), **_OF_PIP, **_QUIET, **more}


def require_unchanged(before: Mapping[str, str], after: Mapping[str, str], raised: set[str]) -> list[str]:
    """Check that only packages that may be raised have changed; returns the changes."""
    changed = {name for name in before.keys() & after.keys() if before[name] != after[name]}
    assert changed <= raised, f"changed besides: {sorted(changed - raised)}"
    assert before.keys() <= after.keys()
    assert after.keys() - before.keys() <= ADDED, f"added besides: {sorted(after.keys() - before.keys() - ADDED)}"
    return sorted(f"{name} {before[name]} -> {after[name]}" for name in changed)


def raised_packages(command: str) -> set[str]:
    return {name.replace("_", "-") for name in _EXCLUDED.findall(command)}


def run_dra_spawner(python: Path, environment: Mapping[str, str]) -> None:
    """The hub's part can be imported, and the command works."""
    program = "import dra_spawner.hub, dra_spawner.service; from dra_spawner.cli import main; main(['check', '-h'])"
    subprocess.run([python, "-c", program], env=dict(environment), check=True, stdout=subprocess.DEVNULL, timeout=LIMIT)


def hub_image(environment: Path, wheels: Path, directory: Path) -> set[str]:
    """The Containerfile of the hub; returns the raised packages."""
    *_, stage = read_containerfile(IMAGES / "hub.Containerfile").stages
    before = versions_of(environment / "bin" / "python", path_of(environment))
    for command in stage.commands():
        execute(command, {"/wheels": wheels, "/tmp": directory}, path_of(environment))
    raised = raised_packages(" ".join(stage.commands()))
    changes = require_unchanged(before, versions_of(environment / "bin" / "python", path_of(environment)), raised)
    run_dra_spawner(environment / "bin" / "python", path_of(environment))
    print(f"  {environment.name}, the Containerfile: {', '.join(changes)}")
    return {each.split()[0] for each in changes}


def init_container(environment: Path, wheels: Path, directory: Path) -> None:
    """The init container of helm-values/hub-without-image.yaml."""
    values = yaml.safe_load((ROOT / "helm-values" / "hub-without-image.yaml").read_text())
    (container,) = values["hub"]["initContainers"]
    shell, option, command = container["command"]
    assert (shell, option) == ("sh", "-ec")
    (wheel,) = wheels.glob("*.whl")
    variables = {each["name"]: each["value"] for each in container["env"]}
    assert variables == {"DRA_SPAWNER": "dra-spawner", **values["hub"]["extraEnv"]}
    volume = directory / "volume"
    here = path_of(environment, DRA_SPAWNER=str(wheel), PYTHONUSERBASE=str(volume))
    python = environment / "bin" / "python"
    before = versions_of(python, path_of(environment))
    execute(command, {"/tmp": directory}, here)
    assert versions_of(python, path_of(environment)) == before, "the image itself is unchanged"
    require_unchanged(before, versions_of(python, here), raised_packages(command))
    run_dra_spawner(python, here)
    shutil.rmtree(volume)
    print(f"  {environment.name}, the init container: works")


def require_contents(wheel: Path) -> None:
    """The wheel has every file of the package, and nothing else but what JupyterLab and Jupyter Server find."""
    found = set(zipfile.ZipFile(wheel).namelist())
    listed = ["git", "-C", str(ROOT), "ls-files", "dra_spawner"]
    package = set(subprocess.run(listed, capture_output=True, text=True, check=True, timeout=LIMIT).stdout.split())
    assert package <= found, f"not in the wheel: {sorted(package - found)[:10]}"
    besides = {each for each in found - package if ".dist-info/" not in each}
    shared = f"{wheel.name.split('-py3')[0]}.data/data/"
    assert all(each.startswith((f"{shared}share/jupyter/", f"{shared}etc/jupyter/")) for each in besides), besides
    assert besides, "the panel of JupyterLab is in the wheel"


def service_image(wheels: Path, directory: Path) -> None:
    """The Containerfile of the service."""
    stage = next(
        each for each in read_containerfile(IMAGES / "service.Containerfile").stages if each.name == "environment"
    )
    lock = directory / "service.lock"
    shutil.copy(ROOT / "requirements" / "service.lock", lock)
    environment = directory / "service"
    paths = {"/wheels": wheels, "/tmp/service.lock": lock, "/opt/dra-spawner": environment}
    for command in stage.commands():
        execute(command, paths, {**os.environ, **_QUIET})
    program = [environment / "bin" / "dra-spawner"]
    subprocess.run([*program, "service", "--version"], check=True, timeout=LIMIT)
    # The migrations are in the package.
    history = ["history", "export", "--url", f"sqlite:///{directory}/history.sqlite"]
    subprocess.run([*program, *history], check=True, timeout=LIMIT)
    assert not (environment / "bin" / "pip").exists()
    # Two commands of the README, in a directory without a checkout.
    subprocess.run([*program, "demo", "--help"], check=True, stdout=subprocess.DEVNULL, cwd=directory, timeout=LIMIT)
    values = ROOT / "helm-values" / "minimal.yaml"
    subprocess.run([*program, "check", values], check=True, stdout=subprocess.DEVNULL, cwd=directory, timeout=LIMIT)


def main() -> None:
    """All of it."""
    with tempfile.TemporaryDirectory(prefix="dra-spawner-images-") as name:
        directory = Path(name)
        wheels = directory / "wheels"
        build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", str(wheels), str(ROOT)]
        subprocess.run(build, check=True, timeout=LIMIT)
        require_contents(next(wheels.glob("*.whl")))
        began = time.monotonic()
        if not sys.argv[1:]:
            service_image(wheels, directory)
            print(f"the service's image: {time.monotonic() - began:.0f} s", flush=True)
        raised: set[str] = set()
        for version in sys.argv[1:] or ("4.0.0", "4.4.0", "main"):
            began = time.monotonic()
            with hub_environment(directory, version) as environment:
                init_container(environment, wheels, directory)
                raised |= hub_image(environment, wheels, directory)
            print(f"the hub's image of zero-to-jupyterhub {version}: {time.monotonic() - began:.0f} s", flush=True)
        text = (IMAGES / "hub.Containerfile").read_text()
        assert sys.argv[1:] or raised_packages(text) == raised, (
            f"raised by no version: {sorted(raised_packages(text) - raised)}"
        )


if __name__ == "__main__":
    main()
