"""Tests mirror the package: a test module in ``tests/P`` is about ``dra_spawner/P``, or its directory is of a kind named here."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]

KINDS: Final = {
    "adversary": "what an attacker does, across packages",
    "browser": "what a user sees, in a browser",
    "chart": "the Helm chart, rendered by Helm itself and applied to a real API server",
    "cluster": "the clusters that tests use, and their helpers",
    "docs": "the documentation: its links, its commands, its values, and what it says that people read",
    "images": "container images: their commands, executed, and the service as its image runs it",
    "integration": "several packages at work together, on both clusters",
    "node": "pods in containers, on a real kubelet",
    "oracle": "our allocator against kube-scheduler's own",
    "virtual_time": "days on a real control plane, and the clock that lets them pass",
}
"""Directories that are about no package, each with what it is about."""

FROM_OUTSIDE: Final = {
    "tests/commands/checking/test_docs.py": "docs/reference/check.md is right",
    "tests/devcluster/api/test_fidelity.py": "the embedded API server over HTTP, beside a real one",
    "tests/devcluster/api/test_fidelity_of_bodies.py": "the embedded API server over HTTP, beside a real one",
    "tests/commands/history_files/test_command_lines.py": "the command `dra-spawner history`, by its command line",
    "tests/commands/cluster_files/test_fit_parity.py": "the command `dra-spawner fit`, beside recorded verdicts of kube-scheduler",
    "tests/profiles/test_golden.py": "what the examples of the documents compile to, by the command that renders them",
}
"""Test modules that import nothing of their package, as they test it from outside, each with what it is about."""


def mirrored(root: Path) -> list[Path]:
    """Test modules in directories that mirror a package; modules in ``tests`` itself are about the repository."""
    tests = root / "tests"
    found = sorted(path.relative_to(root) for path in tests.rglob("test_*.py"))
    return [path for path in found if len(path.parts) > 2 and path.parts[1] not in KINDS]


def problem(root: Path, path: Path) -> str:
    """Problem with the directory of a test module; empty if there is none."""
    package = Path("dra_spawner", *path.parts[1:-1])
    if not (root / package / "__init__.py").exists():
        return f"there is no {package}, and KINDS does not name its directory"
    subject = path.stem.removeprefix("test_")
    if _is_module(root / package / subject):
        return ""
    elsewhere = [str(each.parent.relative_to(root)) for each in _modules_named(root, subject)]
    if elsewhere:
        return f"{subject} is a module of {', '.join(elsewhere)}"
    if ".".join(package.parts) not in _imported(root, path):
        return f"it imports nothing of {package}, neither itself nor by a helper in {path.parent}"
    return ""


def _is_module(path: Path) -> bool:
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def _modules_named(root: Path, name: str) -> list[Path]:
    return _modules(root / "dra_spawner").get(name, [])


@cache
def _modules(package: Path) -> dict[str, list[Path]]:
    """Modules and packages by their own name."""
    found = defaultdict[str, list[Path]](list)
    for path in sorted(package.rglob("*.py")):
        module = path.parent if path.name == "__init__.py" else path
        found[module.stem].append(module)
    return found


def _imported(root: Path, path: Path) -> set[str]:
    """Packages and modules that a test module imports, itself or by the helpers and fixtures beside it."""
    to_read, seen = [path, path.parent / "conftest.py"], set[Path]()
    found = set[str]()
    while to_read:
        each = to_read.pop()
        if each in seen or not (root / each).exists():
            continue
        seen.add(each)
        for name in _imports(root / each):
            parts = name.split(".")
            found |= {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
            helper = Path(*parts).with_suffix(".py")
            if helper.is_relative_to(path.parent):
                to_read.append(helper)
    return found


@cache
def _imports(path: Path) -> tuple[str, ...]:
    return tuple(_found_imports(path))


def _found_imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{each.name}" for each in node.names)
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)


def test_each_test_module_lies_where_its_subject_lies() -> None:
    problems = {str(path): problem(ROOT, path) for path in mirrored(ROOT)}
    outside = {path for path in FROM_OUTSIDE if "imports nothing" in problems[path]}
    wrong = [f"{path}: {found}" for path, found in problems.items() if found and path not in outside]
    assert wrong == [], "\n".join(wrong)


def test_nothing_is_named_for_nothing() -> None:
    assert [name for name in KINDS if not list((ROOT / "tests" / name).glob("test_*.py"))] == []
    assert [path for path in FROM_OUTSIDE if not problem(ROOT, Path(path))] == [], "they need no exception"


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        pytest.param("kube/test_api.py", "", "", id="of a module"),
        pytest.param("kube/test_api.py", "from dra_spawner import spawner", "", id="of a module, whatever it imports"),
        pytest.param("kube/test_watches.py", "from dra_spawner.kube.api import watch", "", id="of a package"),
        pytest.param("kube/test_watches.py", "from tests.kube.helper import watched", "", id="by a helper"),
        pytest.param("kube/test_leases.py", "import dra_spawner.kube.api", "leases is a module of dra_spawner/spawner", id="elsewhere"),
        pytest.param("kube/test_watches.py", "import dra_spawner.spawner", "imports nothing of dra_spawner/kube", id="of another"),
        pytest.param("oddments/test_api.py", "", "there is no dra_spawner/oddments", id="no package"),
    ],
)  # fmt: skip
def test_each_wrong_directory_is_found(tmp_path: Path, path: str, text: str, message: str) -> None:
    files = {
        "dra_spawner/kube/__init__.py": "",
        "dra_spawner/kube/api.py": "",
        "dra_spawner/spawner/__init__.py": "",
        "dra_spawner/spawner/leases.py": "",
        "tests/kube/helper.py": "from dra_spawner.kube.api import watch",
        f"tests/{path}": text,
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    (found,) = mirrored(tmp_path)
    assert message in problem(tmp_path, found) if message else problem(tmp_path, found) == ""
