"""Programs of Go that the gate builds beside the control plane share what has been compiled for it."""

from __future__ import annotations

import re
from pathlib import Path

from tests.all_of_them import all_of_them
from tests.cluster.harness_binary import HARNESS

_TESTS = HARNESS.parent.parent
_VERSION = re.compile(r"^\t(\S+) (v\S+)", re.MULTILINE)


def versions(path: Path) -> dict[str, str]:
    """Versions of the modules that a file of requirements names."""
    return dict(_VERSION.findall(path.read_text()))


#: containerd needs other versions of these modules. Few packages import them, so little is compiled twice.
_FEW_IMPORTERS = {"github.com/Microsoft/go-winio", "k8s.io/cri-api", "k8s.io/cri-client", "k8s.io/cri-streaming"}


@all_of_them(
    "path", ["oracle/releases/1.37/go.mod", "oracle/tracker/go1.37.mod", "node/programs/go.mod", "chart/helm/go.mod"]
)
def test_versions_are_those_of_the_control_plane(path: str) -> None:
    """Go compiles a package anew for each version of it, or of what it imports: a minute or two of each program."""
    known, found = versions(HARNESS / "go.mod"), versions(_TESTS / path)
    assert len(found) > 20
    different = {name for name, version in found.items() if known.get(name, "v0.0.0") not in (version, "v0.0.0")}
    # The control plane has the modules without a version from Kubernetes' own tree.
    assert different <= _FEW_IMPORTERS
