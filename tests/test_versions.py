"""Supported versions: the sentences, and the table of docs/reference/versions.md."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import version
from types import ModuleType

import pytest

from dra_spawner import __version__
from dra_spawner.hub import version_problems
from dra_spawner.versions import (
    KUBERNETES,
    Z2JH,
    Supported,
    installed_problems,
    kubelet_version,
    minor_version,
    package_problems,
    served_version,
    version_problem,
)
from tests.all_of_them import all_of_them
from tests.chart.z2jh import VERSIONS
from tests.cluster.harness_binary import NEWEST, RELEASES, requirements
from tests.versions_table import (
    PAGE,
    ROOT,
    hub_images,
    known_defects,
    pinned,
    project,
    python_versions,
    python_versions_with_some_tests,
    releases,
    table,
)


@all_of_them("text, expected", [
    ("v1.36.3", (1, 36)),
    ("v1.34.2-eks-1234", (1, 34)),
    ("4.4.1-0.dev.git.1.h0", (4, 4)),
    ("", None),
    ("set-by-chartpress", None),
])  # fmt: skip
def test_numbers_of_versions(text: str, expected: tuple[int, int] | None) -> None:
    assert minor_version(text) == expected


@all_of_them("answer, expected", [
    ({"major": "1", "minor": "36", "gitVersion": "v1.36.3"}, ((1, 36), 3)),
    ({"major": "1", "minor": "34+", "gitVersion": "v1.34.2-gke.1500"}, ((1, 34), 2)),
    ({"major": "1", "minor": "36", "gitVersion": "v1.36"}, ((1, 36), None)),
    ({"major": "1", "minor": "36"}, ((1, 36), None)),
    ({"major": 1, "minor": 36, "gitVersion": ["v1.36.3"]}, ((1, 36), None)),
    ({"major": "", "minor": None}, (None, None)),
    ({}, (None, None)),
])  # fmt: skip
def test_what_an_api_server_answers(
    answer: dict[str, object], expected: tuple[tuple[int, int] | None, int | None]
) -> None:
    assert served_version(answer) == expected


@all_of_them("status, expected", [
    ({"nodeInfo": {"kubeletVersion": "v1.35.1+k3s1"}}, ((1, 35), 1)),
    ({"nodeInfo": {"kubeletVersion": "v1.35"}}, ((1, 35), None)),
    *[({"nodeInfo": {"kubeletVersion": odd}}, None) for odd in ("", "unknown", None, 1.35, ["v1.35.1"])],
    *[(odd, None) for odd in ({"nodeInfo": None}, {"nodeInfo": "v1.35.1"}, {}, "v1.35.1", None)],
])  # fmt: skip
def test_the_version_of_a_kubelet(status: object, expected: tuple[tuple[int, int], int | None] | None) -> None:
    assert kubelet_version({"metadata": {"name": "node"}, "status": status}) == expected


NEWER = f"Kubernetes 1.38 is newer than 1.37, the newest version that dra-spawner {__version__} is tested with."


@all_of_them("supported, found, sentence", [
    (KUBERNETES, (1, 33), f"Kubernetes 1.33 is not supported: dra-spawner {__version__} needs 1.34 or later."),
    (KUBERNETES, (1, 34), ""),
    (KUBERNETES, (1, 37), ""),
    (KUBERNETES, None, ""),
    (Supported("Kubernetes", (1, 34), (1, 37)), (1, 38), NEWER),
    (Z2JH, (3, 3), f"zero-to-jupyterhub 3.3 is not supported: dra-spawner {__version__} needs 4.0 or later."),
])  # fmt: skip
def test_sentences(supported: Supported, found: tuple[int, int] | None, sentence: str) -> None:
    assert version_problem(supported, found) == sentence


def test_packages_that_pip_was_forced_to_install() -> None:
    present = {"jupyterhub": "4.1.6", "jupyterhub-kubespawner": "8.0.0b1", "tornado": "1"}

    assert package_problems(present, project()["dependencies"]) == (
        f"JupyterHub 4.1.6 is not supported: dra-spawner {__version__} needs >=5.2.1, !=6.0.*, <7.",
        f"KubeSpawner 8.0.0b1 is not supported: dra-spawner {__version__} needs >=7.0, <8.",
    )
    del present["jupyterhub"]
    present["jupyterhub-kubespawner"] = "7.1.1.dev0"
    assert package_problems(present, project()["dependencies"]) == ()


def test_installed_versions_are_supported() -> None:
    assert installed_problems() == ()


def test_the_hub_names_an_old_chart(monkeypatch: pytest.MonkeyPatch) -> None:
    assert version_problems() == ()
    chart = ModuleType("z2jh")
    chart.get_config = lambda key, default=None: {"Chart.Version": "3.3.8"}.get(key, default)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "z2jh", chart)
    assert version_problems() == (
        f"zero-to-jupyterhub 3.3 is not supported: dra-spawner {__version__} needs 4.0 or later.",
    )


def test_the_page_has_the_tables() -> None:
    text = PAGE.read_text()
    for part in (table(), releases(), hub_images(), known_defects()):
        assert part in text, f"put this into {PAGE.name}:\n{part}"


def test_ci_runs_the_versions_of_the_table() -> None:
    for release, kubernetes in RELEASES.items():
        assert f"k8s.io/kubernetes {kubernetes}\n" in requirements(release).read_text()
        assert f"v{release}." in kubernetes
    tested = [found for release in RELEASES if (found := minor_version(release)) is not None]
    assert minor_version(NEWEST) == KUBERNETES.tested == max(tested)
    numbered = [found for each in VERSIONS if (found := minor_version(each)) is not None]
    assert (min(numbered), max(numbered)) == (Z2JH.least, Z2JH.tested)
    assert project()["requires-python"] == f">={python_versions()[0]}"
    assert set(python_versions_with_some_tests()) < set(python_versions())
    gate = (ROOT / ".ci" / "run").read_text()
    assert "-c .ci/oldest.txt" in gate
    assert "tests.images.executed" in gate


def test_this_run_uses_a_tested_version() -> None:
    """The gate runs the tests twice."""
    assert ".".join(platform.python_version_tuple()[:2]) in python_versions()
    oldest = pinned(ROOT / ".ci" / "oldest.txt")
    locked = pinned(ROOT / "requirements" / "service.lock")
    for name in ("jupyterhub", "jupyterhub-kubespawner"):
        # A newer release than the locked one may have come since.
        assert version(name) == oldest[name] or version(name) >= locked[name]
