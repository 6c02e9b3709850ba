"""What a hub has imported after its first form, after its first server with a share of a GPU, and with ``setup(c)``."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.hub_imports import SPAWNER, imported_with
from tests.integration.faulty_hub import Faulty
from tests.integration.fork_server import fork_program
from tests.polling import eventually

#: Modules and lines of this package in the process. The form and the start ask devices by CEL; ``setup(c)`` checks profiles.
MOST = {"import": (150, 20_000), "form": (215, 29_500), "start": (215, 29_500), "setup": (312, 44_600)}
#: What no start needs that succeeds without a service.
NEVER = ("check", "devcluster", "doctor", "profiles.intel_gas", "profiles.lint", "service")


async def test_a_hub_imports_what_it_needs(embedded_faulty: Faulty, tmp_path: Path) -> None:
    log, cluster = tmp_path / "log", embedded_faulty.cluster
    arguments = [str(embedded_faulty.side.kubeconfig), cluster.namespace, str(embedded_faulty.side.spawner_config.port)]
    process = fork_program("tests.hub_imports", arguments, directory=Path.cwd(), log=log, environment=dict(os.environ))
    await eventually(lambda: process.poll() is not None, "it ends", shows=log.read_text)
    stages = {
        each["stage"]: each
        for line in log.read_text().splitlines()
        if line.startswith("{")
        for each in [json.loads(line)]
    }
    assert stages.keys() == MOST.keys(), log.read_text()
    found = {name: (each["count"], each["lines"]) for name, each in stages.items()}
    assert {name: each for name, each in found.items() if each[0] > MOST[name][0] or each[1] > MOST[name][1]} == {}
    assert set(stages["import"]["modules"]) == imported_with(SPAWNER)
    later = tuple(f"dra_spawner.{each}" for each in NEVER)
    assert [each for each in stages["start"]["modules"] if each.startswith(later)] == []
