"""Tiers of tests, which set themselves from fixtures and directories, and what each of them costs.

``pytest`` alone runs the tier *default*; ``pytest -m real`` runs another one, and ``pytest -m ""`` all. A test that is
named by its id always runs. ``pytest --tiers`` lists the tiers.
"""

from __future__ import annotations

import heapq
import os
import re
import resource
import shutil
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import pytest

from tests import examples
from tests.tier_lists import DAYS, DEAR, LONG

__all__ = ["Tier", "TierReporter", "order_of", "stage_of", "tier_of"]

TESTS: Final = Path(__file__).parent
#: Packages of the extra ``gate``: a module that imports one is of the tier system.
_GATE_PACKAGES: Final = re.compile(
    r"^(?:from|import) (?:cel_expr_python|check_jsonschema|openapi_spec_validator|schemathesis)\b",
    re.MULTILINE,
)
#: This environment's programs come first, also where it is not activated.
_PROGRAMS: Final = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
#: Of a module, say: so many are listed one by one.
_FEW_TESTS: Final = 100
_CACHE_KEY = "dra-spawner/tiers"


class Tier(StrEnum):
    """A tier; each value is the mark by which pytest selects its tests."""

    DEFAULT = "default"
    EMBEDDED = "embedded"
    REAL = "real"
    SYSTEM = "system"
    LONG = "long"


MEANINGS: Final = {
    Tier.DEFAULT: "no cluster, or the embedded one for the promises to users",
    Tier.EMBEDDED: "the embedded cluster",
    Tier.REAL: "a real kube-apiserver, kube-scheduler and kube-controller-manager",
    Tier.SYSTEM: "a node, browser, chart, image, database server or other program; days in virtual time, and hostile inputs",
    Tier.LONG: "once a night: tests that take longer than they are worth in each change, and all random examples",
}
_SYSTEM_DIRECTORIES: Final = frozenset(("browser", "chart", "images", "node", "oracle", "virtual_time"))
#: Those whose tests need no program that Go builds.
_WITHOUT_GO: Final = frozenset(("browser",))
_CLUSTER_DIRECTORIES: Final = frozenset(("integration",))
#: Its hostile inputs take an eighth of the processors that the default tier had with them, and none is a promise.
_HOSTILE_DIRECTORIES: Final = frozenset(("adversary",))
#: Fixtures that start something, and the tier of a test that needs one of them.
_FIXTURES: Final = (
    (Tier.SYSTEM, frozenset(("helm", "machine", "oracle", "oracles", "postgresql"))),
    (Tier.REAL, frozenset(("control_plane", "control_plane_path", "real_cluster"))),
    (Tier.EMBEDDED, frozenset(("background_loop", "cluster", "embedded_cluster"))),
)
_BUILT_LATE: Final = frozenset(
    ("control_plane", "control_plane_path", "helm", "machine", "oracle", "oracles", "real_cluster")
)
#: Values of parameters that name a fixture of the same meaning, as those of ``cluster`` and of the history's ``url``.
_PARAMETERS: Final = {"postgresql": Tier.SYSTEM, "real": Tier.REAL}


def tier_of(item: pytest.Item) -> Tier:
    """Return the tier of a test.

    Parameters
    ----------
    item
        Its fixtures, the values of its parameters, its directory and its marks ``promise`` and ``needs_program`` decide.
    """
    path = item.path.relative_to(TESTS)
    module = path.as_posix()
    names = {module, f"{module}::{item.name}", f"{module}::{getattr(item, 'originalname', item.name)}"}
    if not names.isdisjoint(LONG):
        return Tier.LONG
    directory = path.parts[0]
    if directory in _SYSTEM_DIRECTORIES or needs_gate_package(item.path) or item.get_closest_marker("needs_program"):
        return Tier.SYSTEM
    if not names.isdisjoint(DAYS) and not item.get_closest_marker("promise"):
        return Tier.SYSTEM
    callspec = getattr(item, "callspec", None)
    values = {value for value in callspec.params.values() if isinstance(value, str)} if callspec else set()
    for value, tier in _PARAMETERS.items():
        if value in values:
            return tier
    fixtures = set(getattr(item, "fixturenames", ()))
    found = next((tier for tier, names in _FIXTURES if fixtures & names), Tier.DEFAULT)
    if found is Tier.DEFAULT and directory in _CLUSTER_DIRECTORIES:
        found = Tier.EMBEDDED
    if found is Tier.DEFAULT and directory in _HOSTILE_DIRECTORIES:
        return Tier.SYSTEM
    if found is Tier.EMBEDDED and item.get_closest_marker("promise"):
        return Tier.DEFAULT
    return found


def stage_of(item: pytest.Item) -> int:
    """Return the stage of a run in which a test begins. A test that needs a program of Go begins late.

    Returns
    -------
    int
        0: it needs none; 1: a real control plane; 2: any, which may be built after that.
    """
    tier = tier_of(item)
    if tier is Tier.REAL:
        return 1
    directory = item.path.relative_to(TESTS).parts[0]
    is_built = directory in _SYSTEM_DIRECTORIES - _WITHOUT_GO or _BUILT_LATE & set(getattr(item, "fixturenames", ()))
    return 2 if tier is Tier.SYSTEM and is_built else 0


def order_of(names: Sequence[str], stages: Sequence[int], processes: int) -> list[int]:
    """Return an order of tests by stage in each process, in which none of `DEAR` begins late in its stage.

    Parameters
    ----------
    names
        Of the tests, below ``tests/``. Those of a module stay together where that is possible, and modules that follow one
        another go to different processes.
    stages
        Of each test, as `stage_of` returns it.
    processes
        Number of processes. pytest-xdist gives each an equal part of the list, and lets who is done take from others'
        ends.
    """
    sizes = [(len(names) + process) // processes for process in range(processes)]
    parts: list[list[int]] = [[] for _ in sizes]
    last = max(stages, default=0)
    for stage in sorted(set(stages)):
        places = [place for place, of in enumerate(stages) if of == stage]
        left = [size - len(part) for size, part in zip(sizes, parts, strict=True)]
        if stage != last:
            equal = [(len(places) + process) // processes for process in range(processes)]
            left = [min(most, share) for most, share in zip(left, equal, strict=True)]
        dear = sorted((place for place in places if names[place] in DEAR), key=lambda place: DEAR.index(names[place]))
        others = (place for place in places if names[place] not in DEAR)
        modules = [[place] for place in dear]
        modules += [list(found) for _, found in groupby(others, key=lambda place: names[place].partition("::")[0])]
        for module in modules:
            while module:
                process = left.index(max(left))
                taken = module[: max(1, left[process])]
                parts[process] += taken
                left[process] -= len(taken)
                module = module[len(taken) :]
    return [place for part in parts for place in part]


@cache
def needs_gate_package(path: Path) -> bool:
    """Whether a module of tests imports a package that the default tier does without."""
    return bool(_GATE_PACKAGES.search(path.read_text()))


def has_random_examples(item: pytest.Item) -> bool:
    """Whether the tier *long* runs the test, too: with ten times as many random examples, or with oracles of all releases."""
    if getattr(getattr(item, "function", None), "is_hypothesis_test", False):
        return True
    if "oracles" in getattr(item, "fixturenames", ()):
        return True
    module = getattr(item, "module", None)
    return module is not None and vars(module).get("example_count") is examples.example_count


def may_hold(path: Path, arguments: list[str]) -> bool:
    """Whether a path can hold tests of the tier *default*, or is named on the command line."""
    is_other = path.parent == TESTS and path.name in _SYSTEM_DIRECTORIES
    if not is_other and not (path.name.startswith("test_") and path.suffix == ".py" and needs_gate_package(path)):
        return True
    return any(path == Path(each).absolute() or path in Path(each).absolute().parents for each in arguments)


@dataclass(slots=True)
class TierCost:
    """What the tests of a tier have taken.

    Attributes
    ----------
    tests
        Their number.
    seconds
        Seconds inside them, in all processes together.
    processor_seconds
        Seconds of processors for them and for the processes that they have waited for.
    slowest
        Seconds of each test.
    """

    tests: int = 0
    seconds: float = 0.0
    processor_seconds: float = 0.0
    slowest: dict[str, float] = field(default_factory=lambda: defaultdict(float))


class TierReporter:
    """Marks each test with its tier, and measures tiers.

    Attributes
    ----------
    costs
        Of each tier, in the process that prints them.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.costs = {tier: TierCost() for tier in Tier}
        self._config = config
        self._began = time.monotonic()
        self._processors: dict[str, float] = defaultdict(float)
        self._left: Counter[str] = Counter()
        self._all_processor_seconds = 0.0
        self._has_workers = False

    # In each process that runs tests:

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            tier = tier_of(item)
            item.add_marker(tier.value)
            if has_random_examples(item):
                item.add_marker(Tier.LONG.value)
            item.user_properties.append(("tier", tier.value))
            for mark in item.iter_markers("needs_program"):
                if shutil.which(mark.args[0], path=_PROGRAMS) is None:
                    item.add_marker(pytest.mark.skip(reason=f"{mark.args[0]} is not installed"))

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        self._left.update(str(dict(item.user_properties)["tier"]) for item in items)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        before = processor_seconds()
        try:
            return (yield)
        finally:
            self._processors[str(dict(item.user_properties)["tier"])] += processor_seconds() - before

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["tiers"] = (dict(self._processors), processor_seconds(), dict(self._left))
            return
        # Workers have told their own.
        self._add(self._processors, processor_seconds(with_children=not self._has_workers))
        cache = getattr(session.config, "cache", None)  # it is a plugin of pytest that can be switched off
        if cache is not None and session.config.args == session.config.getini("testpaths"):
            cache.set(_CACHE_KEY, self._remembered(cache))
        budget = session.config.getoption("processor_seconds")
        if budget and self._all_processor_seconds > budget:
            print(
                f"\nThese tests may take {budget:g} seconds of processors, and took {self._all_processor_seconds:.0f}."
            )
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _remembered(self, cache: pytest.Cache) -> dict[str, list[int]]:
        """What the tiers took last, with this run's."""
        found: dict[str, list[int]] = cache.get(_CACHE_KEY, {})
        for tier, cost in self.costs.items():
            if cost.tests:
                found[tier.value] = [cost.tests, round(cost.seconds), round(cost.processor_seconds)]
        return found

    # In the process that prints:

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._has_workers = True
        processors, total, left = getattr(node, "workeroutput", {}).get("tiers", ({}, 0.0, {}))
        self._add(processors, total)
        self._left = Counter(left)

    def _add(self, processors: dict[str, float], total: float) -> None:
        for tier, seconds in processors.items():
            self.costs[Tier(tier)].processor_seconds += seconds
        self._all_processor_seconds += total

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        cost = self.costs[Tier(str(dict(report.user_properties).get("tier", Tier.DEFAULT)))]
        cost.tests += report.when == "call"
        cost.seconds += report.duration
        cost.slowest[report.nodeid] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        slowest = self._config.getoption("slowest")
        for tier, cost in self.costs.items():
            if not cost.tests:
                continue
            terminalreporter.write_line(
                f"tier {tier}: {cost.tests} tests, {cost.seconds:.0f} s in them, {cost.processor_seconds:.0f} s of processors"
            )
            for name, seconds in heapq.nlargest(slowest, cost.slowest.items(), key=itemgetter(1)):
                terminalreporter.write_line(f"  {seconds:6.1f} s {name}")
        terminalreporter.write_line(
            f"all: {time.monotonic() - self._began:.0f} s, {self._all_processor_seconds:.0f} s of processors"
        )
        if self._left:
            left = ", ".join(f"{number} {tier}" for tier, number in sorted(self._left.items()))
            terminalreporter.write_line(f'other tiers were left out ({left}); `pytest -m ""` runs all')


class TierList:
    """``pytest --tiers``: prints each tier with its number of tests, and of few tests each one's; it runs none."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        numbers = Counter(str(dict(item.user_properties)["tier"]) for item in session.items)
        more = sum(has_random_examples(item) for item in session.items)
        cache = getattr(session.config, "cache", None)
        last = cache.get(_CACHE_KEY, {}) if cache is not None else {}
        print(
            f"\n{'tier':10}{'tests':>7}{'seconds':>9}{'processors':>12}  what its tests need (seconds: of the last run here)"
        )
        for tier in Tier:
            number = numbers[tier.value] + (more if tier is Tier.LONG else 0)
            _, seconds, processors = last.get(tier.value, ("", "-", "-"))
            print(f"{tier:10}{number:7}{seconds:>9}{processors:>12}  {MEANINGS[tier]}")

        if len(session.items) <= _FEW_TESTS:
            for item in session.items:
                print(f"{tier_of(item):10}{item.nodeid}")

    def pytest_runtestloop(self) -> bool:
        return True


def processor_seconds(*, with_children: bool = True) -> float:
    """Seconds of processors that this process, and the ended processes that it has waited for, have used."""
    of = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN) if with_children else (resource.RUSAGE_SELF,)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, of))


def configure(config: pytest.Config) -> None:
    """Register marks and reporters, and say how many random examples this run takes."""
    for tier, meaning in MEANINGS.items():
        config.addinivalue_line("markers", f"{tier}: {meaning}; set by tests/tiers.py, never by hand")
    config.addinivalue_line("markers", "promise(sentence): what a user counts on; docs/explanation/promises.md")
    config.addinivalue_line("markers", "needs_program(name): a program of Debian; the test is of the tier system")
    if config.option.markexpr == Tier.DEFAULT and any("::" in each for each in config.args):
        config.option.markexpr = ""
    if config.getoption("tiers"):
        config.option.markexpr = ""
        config.option.verbose = -2
        config.pluginmanager.register(TierList())
    expression = config.option.markexpr
    is_long = not expression or Tier.LONG in expression.replace(f"not {Tier.LONG}", "")
    examples.choose(all_of_them=is_long and not config.getoption("tiers"))
    config.pluginmanager.register(TierReporter(config), "tier-reporter")
