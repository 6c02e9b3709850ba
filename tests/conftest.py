"""Fixtures of all tests, and the rule that nothing may be skipped where everything is there."""

import gc
import os
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import aiohttp
import pytest

from . import tiers
from .chart.rendering import helm
from .cluster.fixtures import (
    ONLY_NEWEST,
    background_loop,
    cluster,
    control_plane,
    control_plane_path,
    control_plane_report,
    embedded_cluster,
    real_cluster,
)
from .no_authorities import trust_no_authorities
from .oracle.binary import oracle, oracles

trust_no_authorities()

# jsonschema, which JupyterHub imports, compiles 38 grammars with it, for formats of which no test here asks: more than a
# second of each process.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

# The other one watches /etc/resolv.conf for each event loop that ever was, and a machine has 128 such watchers for all
# processes of a user: kubelet and containerd would find none left.
aiohttp.connector.DefaultResolver = aiohttp.ThreadedResolver

#: Set in CI: a skipped test makes the run fail, unless its reason is in `_MAY_BE_MISSING`.
REQUIRE_ALL = "DRA_SPAWNER_REQUIRE_ALL"
_MAY_BE_MISSING = (
    "kubectl is not installed",
    ONLY_NEWEST,
    "KubeSpawner 7.0 itself differs",
    "Kubernetes 1.36 serves no rules by default",
)

__all__ = [
    "background_loop",
    "cluster",
    "control_plane",
    "control_plane_path",
    "control_plane_report",
    "embedded_cluster",
    "helm",
    "oracle",
    "oracles",
    "real_cluster",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers", "tiers of tests (tests/tiers.py)")
    group.addoption("--tiers", action="store_true", help="list the tiers with their number of tests, and run none")
    group.addoption("--slowest", type=int, default=0, metavar="N", help="name the N slowest tests of each tier")
    group.addoption(
        "--processor-seconds", type=float, metavar="SECONDS", help="fail if the run takes more seconds of processors"
    )


def pytest_configure(config: pytest.Config) -> None:
    tiers.configure(config)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Number of processes for tests that wait: two more than processors, and 3 GB for each with its clusters.

    Tests of other tiers than the default one wait longer.
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    processors = len(os.sched_getaffinity(0))
    more = 2 if config.option.markexpr == tiers.Tier.DEFAULT else 3
    return max(1, min(processors + more, int(memory // 3e9)))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no module of other tiers where only the tier *default* is wanted."""
    if config.option.markexpr == tiers.Tier.DEFAULT and not tiers.may_hold(collection_path, config.args):
        return True
    return None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect no garbage among modules and tests, which all stay: not while they come, and not in each test that collects."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


#: Their tests wait for clusters, nodes and browsers most of their time.
_WAITING = frozenset(("browser", "devcluster", "integration", "node"))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put modules that wait evenly between modules that compute, so that the processors are never idle.

    Dear tests come first in each stage."""
    waiting: list[list[pytest.Item]] = []
    computing: list[list[pytest.Item]] = []
    for path, found in groupby(items, key=lambda item: item.path):
        package = path.relative_to(Path(__file__).parent).parts[0]
        (waiting if package in _WAITING else computing).append(list(found))
    placed: list[tuple[float, list[pytest.Item]]] = []
    for modules in (waiting, computing):
        most, before = sum(map(len, modules)), 0
        for module in modules:
            placed.append(((before + len(module) / 2) / most, module))
            before += len(module)
    placed.sort(key=lambda each: each[0])
    mixed = [item for _, module in placed for item in module]
    names = [f"{item.path.relative_to(Path(__file__).parent).as_posix()}::{item.name}" for item in mixed]
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    stages = [tiers.stage_of(item) for item in mixed]
    items[:] = [mixed[place] for place in tiers.order_of(names, stages, processes)]


def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not os.environ.get(REQUIRE_ALL) or reporter is None:
        return
    skipped = [
        f"{report.nodeid}: {report.longrepr[2]}"
        for report in reporter.stats.get("skipped", ())
        if not report.longrepr[2].endswith(_MAY_BE_MISSING)
    ]
    if skipped:
        reporter.write_line(f"\n{REQUIRE_ALL} is set, but these were skipped:\n  " + "\n  ".join(skipped), red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
