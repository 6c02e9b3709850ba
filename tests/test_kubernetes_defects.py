"""Known defects of Kubernetes: which versions have each, and what mends it."""

from __future__ import annotations

from dra_spawner.kubernetes_defects import DEFECTS, FoundVersion, KubernetesDefect, Program, defects_of
from dra_spawner.versions import KUBERNETES, MinorVersion
from tests.all_of_them import all_of_them

BY_ISSUE = {defect.issue: defect for defect in DEFECTS}


@all_of_them("defect", {str(defect.issue): defect for defect in DEFECTS})
def test_each_defect_ends_with_the_patch_that_mends_it(defect: KubernetesDefect) -> None:
    assert defect.mended
    for minor, patch in defect.mended.items():
        assert KUBERNETES.least <= minor
        assert defect.mended_by is None or minor < defect.mended_by
        assert defect.affects((minor, 0))
        if patch is None:
            assert defect.affects((minor, None))
        else:
            assert defect.affects((minor, patch - 1))
            assert not defect.affects((minor, patch))
            # Nothing is said of a version that may be mended.
            assert not defect.affects((minor, None))
    newest = max(defect.mended)
    assert not defect.affects(((newest[0], newest[1] + 1), 0))
    assert defect.happens.endswith(".")
    assert defect.remedy(newest).endswith(".")


@all_of_them("program, found, issues", [
    (Program.SCHEDULER, ((1, 34), 3), {136269, 139034}),
    (Program.SCHEDULER, ((1, 34), 4), {139034}),
    (Program.SCHEDULER, ((1, 35), 5), {139034, 138882}),
    (Program.SCHEDULER, ((1, 36), 1), {139034, 138882, 140663, 139681}),
    (Program.SCHEDULER, ((1, 36), 3), set()),
    (Program.KUBELET, ((1, 34), 3), {135901}),
    (Program.KUBELET, ((1, 35), 1), set()),
    (Program.CONTROLLER_MANAGER, ((1, 35), 9), {135835, 138407}),
    (Program.CONTROLLER_MANAGER, ((1, 37), 0), set()),
    (Program.SCHEDULER, ((1, 33), 0), set()),
])  # fmt: skip
def test_defects_of_a_version(program: Program, found: FoundVersion, issues: set[int]) -> None:
    assert {each.issue for each in defects_of(program, found)} == issues


@all_of_them("issue, minor, remedy", [
    (136269, (1, 35), "Upgrade kube-scheduler to 1.35.1 or later."),
    (139034, (1, 35), "Kubernetes 1.37.0 mends it; no patch of 1.35 is known to."),
    (141046, (1, 37), "No release is known to mend it. Until then: Larger limits"),
])  # fmt: skip
def test_a_remedy_names_only_what_is_known(issue: int, minor: MinorVersion, remedy: str) -> None:
    assert BY_ISSUE[issue].remedy(minor).startswith(remedy)
