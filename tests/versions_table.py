"""The tables of docs/reference/versions.md, made from the versions that CI runs and from the known defects.

``python -m tests.versions_table`` writes them into the page.
"""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import yaml
from packaging.requirements import Requirement

from dra_spawner.dra.features import Quirks
from dra_spawner.dra.scheduler_rules import RULES
from dra_spawner.kubernetes_defects import DEFECTS
from dra_spawner.versions import KUBERNETES, Z2JH, MinorVersion
from tests.chart.z2jh import VERSIONS
from tests.cluster.harness_binary import RELEASES as BUILT
from tests.images.executed import PINS
from tests.oracle.binary import RELEASES

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs" / "reference" / "versions.md"


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def pinned(path: Path) -> dict[str, str]:
    """Versions by package of a file that pip reads."""
    return dict(re.findall(r"^([A-Za-z0-9_.-]+)==([^\s;\\]+)", path.read_text(), re.MULTILINE))


def python_versions() -> list[str]:
    """The versions in the classifiers."""
    found = re.findall(r"Python :: (3\.\d+)", "\n".join(project()["classifiers"]))
    return sorted(found, key=lambda each: int(each.split(".")[1]))


def python_versions_with_some_tests() -> list[str]:
    """Python versions of the workflow's second job."""
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yaml").read_text())
    found: list[str] = workflow["jobs"]["python"]["strategy"]["matrix"]["version"]
    return found


def _text(version: MinorVersion) -> str:
    return ".".join(map(str, version))


def _releases() -> str:
    newest, *others = (version.removeprefix("v") for version in BUILT.values())
    return f"{newest}; each night also {', '.join(others)}"


def table() -> str:
    """As it is on the page."""
    oldest, locked = pinned(ROOT / ".ci" / "oldest.txt"), pinned(ROOT / "requirements" / "service.lock")
    needs = {found.name: found.specifier for found in map(Requirement, project()["dependencies"])}
    chart = yaml.safe_load((ROOT / "helm-values" / "chart" / "Chart.yaml").read_text())
    assert chart["kubeVersion"] == f">={_text(KUBERNETES.least)}.0-0"
    rows = [
        ("part", "works with", "CI runs"),
        ("---", "---", "---"),
        ("Kubernetes", f"{_text(KUBERNETES.least)} or later", _releases()),
        ("zero-to-jupyterhub", f"{_text(Z2JH.least)} or later", ", ".join(VERSIONS)),
    ]
    for name, title in (("jupyterhub", "JupyterHub"), ("jupyterhub-kubespawner", "KubeSpawner")):
        wanted = ", ".join(sorted(map(str, needs[name]), key=lambda each: each.lstrip("<>=!")))
        rows.append((title, f"`{wanted}`", f"{oldest[name]} and {locked[name]}"))
    all_tests, some_tests = python_versions()[0], ", ".join(python_versions_with_some_tests())
    rows.append(
        ("Python", f"{all_tests} to {python_versions()[-1]}", f"{all_tests}; a part of the tests: {some_tests}")
    )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def hub_images() -> str:
    """Versions in the images of zero-to-jupyterhub."""
    rows = ["| zero-to-jupyterhub | JupyterHub | KubeSpawner | kubernetes-asyncio |", "|---|---|---|---|"]
    for version in VERSIONS:
        has = pinned(PINS / f"{version}.txt")
        names = ("jupyterhub", "jupyterhub-kubespawner", "kubernetes-asyncio")
        rows.append(f"| {version} | {' | '.join(has[name] for name in names)} |")
    return "\n".join(rows)


def known_defects() -> str:
    """Known defects of Kubernetes."""
    rows = ["| program | versions | what happens | mended in | until then |", "|---|---|---|---|---|"]
    for each in DEFECTS:
        patches = [f"{_text(minor)}.{patch}" for minor, patch in each.mended.items() if patch is not None]
        newer = [f"{_text(each.mended_by)}.0"] if each.mended_by is not None else []
        mended = ", ".join([*patches, *newer]) or "not known"
        happens = f"{each.happens.rstrip('.')} ([{each.issue}]({each.address}))"
        rows.append(f"| {each.program} | {each.versions} | {happens} | {mended} | {each.advice} |")
    return "\n".join(rows)


def releases() -> str:
    """How each release's kube-scheduler decides about devices, as far as they differ, and with what that is compared."""
    shown = [_text(release) for release in RULES]
    cases = sorted((ROOT / "tests" / "dra" / "quirks").glob("*.json"))
    sentences: dict[str, str] = {}
    for case in map(json.loads, map(Path.read_text, cases)):
        if "quirk" in case:
            sentences.setdefault(case["quirk"], case["what"].rstrip("."))
    rows = [
        ("in this release", *shown),
        ("---", *["---"] * len(shown)),
        ("compared with the allocator of", *(RELEASES[release] for release in RULES)),
        ("known exactly", *("yes" if rules.is_exact else "no" for rules in RULES.values())),
    ]
    sentences["rules_without_selector"] = "a DeviceTaintRule without a selector taints all devices for the scheduler"
    names = [field.name for field in fields(Quirks)]
    for name in sorted(names, key=lambda name: [getattr(rules.quirks, name) for rules in RULES.values()]):
        rows.append((sentences[name], *("yes" if getattr(rules.quirks, name) else "" for rules in RULES.values())))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def with_tables(page: str) -> str:
    """The page with these tables in place of its own, which have the same first lines."""
    for made in (table(), releases(), hub_images(), known_defects()):
        heading = made.partition("\n")[0]
        assert page.count(f"\n{heading}\n") == 1, heading
        before, _, rest = page.partition(f"\n{heading}\n")
        after = re.sub(r"\A(\|.*\n)*", "", rest)
        page = f"{before}\n{made}\n{after}"
    return page


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
