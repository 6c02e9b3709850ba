"""The structure in numbers: ``python -m tests.structure``; two outputs side by side (``diff -y``) tell before from after.

Lines, modules and packages; modules on each level; what ``import dra_spawner.spawner`` loads besides KubeSpawner; and the modules
and returns on three walks: the start of a server, a round of decisions that replaces a placeholder, and an answer about availability.
"""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

PACKAGE: Final = Path(__file__).parents[1] / "dra_spawner"
#: A level with more modules and packages is listed by its name.
_LARGE: Final = 15
_PRINT_IMPORTS: Final = """
import sys
import kubespawner, jupyterhub.handlers
before = set(sys.modules)
import dra_spawner.spawner
print(*sorted(each for each in set(sys.modules) - before if each.startswith("dra_spawner")))
"""


def lines_of(path: Path) -> int:
    return len(path.read_text().splitlines())


def levels() -> dict[str, tuple[int, int]]:
    """Modules, and packages, directly in each package, by its path."""
    found = {}
    for init in PACKAGE.rglob("__init__.py"):
        directory = init.parent
        packages = len(list(directory.glob("*/__init__.py")))
        found[str(directory.relative_to(PACKAGE.parent))] = len(list(directory.glob("*.py"))) - 1, packages
    return found


def hub_imports() -> tuple[int, int]:
    """Modules of ours, and their lines, that a hub's import of DRASpawner loads."""
    done = subprocess.run([sys.executable, "-c", _PRINT_IMPORTS], capture_output=True, text=True, check=True)
    modules = done.stdout.split()
    paths = (PACKAGE.parent.joinpath(*each.split(".")) for each in modules)
    return len(modules), sum(
        lines_of(each / "__init__.py" if each.is_dir() else each.with_suffix(".py")) for each in paths
    )


class Walk:
    """Counts returns of our functions in this thread, by module.

    A coroutine returns each time it waits, and once more at its end.
    """

    def __init__(self) -> None:
        self.returns: Counter[str] = Counter()

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "return" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            self.returns[frame.f_code.co_filename] += 1

    @contextmanager
    def traced(self) -> Iterator[None]:
        sys.setprofile(self.note)
        try:
            yield
        finally:
            sys.setprofile(None)

    def __str__(self) -> str:
        return f"{len(self.returns):6} modules {sum(self.returns.values()):8} returns"


def round_and_availability() -> tuple[Walk, Walk]:
    """A placeholder is gone, and the next round replaces it; then the form asks what is free."""
    from dra_spawner.placeholders.controller.answers.availability import Availability
    from dra_spawner.placeholders.controller.round.reconciler import Reconciler
    from dra_spawner.simulator.model.cluster_objects import Kind
    from tests.placeholders.controller.resting_cluster import SERVERS, RestingCluster
    from tests.virtual_loop import pass_time, run_in_virtual_time

    rounds: list[Walk] = []
    answer = Walk()
    original = Reconciler.round

    async def traced_round(self: Reconciler) -> None:
        rounds.append(Walk())
        with rounds[-1].traced():
            await original(self)

    async def walk() -> None:
        cluster = RestingCluster()
        async with cluster.leading():
            await pass_time(120)
            Reconciler.round = traced_round  # type: ignore[method-assign]
            try:
                cluster.remove(Kind.POD, f"placeholder-{SERVERS}")
                await pass_time(60)
            finally:
                Reconciler.round = original  # type: ignore[method-assign]
            with answer.traced():
                assert await Availability(cluster.controller).choices()

    run_in_virtual_time(walk())
    return max(rounds, key=lambda each: each.returns.total()), answer


def start() -> Walk:
    """A user's server with a share of a device, on the embedded cluster; the second one, as the first loads what all need."""
    from dra_spawner.devcluster.embedded_cluster import EmbeddedCluster
    from tests.bench.spawn import start_cluster, start_stub
    from tests.cluster.background import BackgroundLoop
    from tests.spawner.hub_side import HubSide, end_hub_side, kubernetes_of

    walk = Walk()

    async def spawn(kubeconfig: Path, port: int) -> None:
        side = HubSide(kubeconfig, "default")
        side.spawner_config.port = port
        side.spawner_config.device_claims = {
            "gpu": {"device_class": "gpu-share.example.com", "capacity": {"memory": "5Gi"}}
        }
        for name in ("first", "second"):
            user = side.user(name)
            walk.returns.clear()
            with walk.traced():
                await user.spawn("", {})
            user.spawner.stop_polling()
            await user.stop("")
        await end_hub_side()

    with tempfile.TemporaryDirectory() as directory, BackgroundLoop("cluster") as background:
        cluster = EmbeddedCluster(Path(directory), run_pods=False)
        background.run(cluster.start())
        kubelet, api = background.run(start_cluster(cluster.kubeconfig, nodes=1))
        port = background.run(start_stub())
        with kubernetes_of(cluster.kubeconfig):
            asyncio.run(spawn(cluster.kubeconfig, port))
        background.run(kubelet.stop())
        background.run(api.close())
        background.run(cluster.stop())
    assert threading.current_thread() is threading.main_thread()
    return walk


def report() -> Iterator[str]:
    modules = [each for each in PACKAGE.rglob("*.py") if each.name != "__init__.py"]
    packages = list(PACKAGE.rglob("__init__.py"))
    yield f"lines of the package      {sum(lines_of(each) for each in (*modules, *packages)):8}"
    yield f"modules                   {len(modules):8}"
    yield f"packages                  {len(packages):8}"
    found = levels()
    yield f"on the top level          {sum(found['dra_spawner']):8}"
    large = {name: each for name, each in found.items() if sum(each) > _LARGE}
    yield f"levels above {_LARGE} modules   {sum(count > _LARGE for count, _ in large.values()):8}"
    for name, (count, below) in sorted(large.items(), key=lambda each: (-sum(each[1]), each[0])):
        yield f"    {name:36} {count:4} modules {below:4} packages"
    count, lines = hub_imports()
    yield f"a hub imports             {count:8} modules {lines:8} lines"
    yield f"start of a server         {start()}"
    placeholder_round, availability = round_and_availability()
    yield f"round of decisions        {placeholder_round}"
    yield f"answer about availability {availability}"


def main(arguments: Sequence[str] = ()) -> int:
    if arguments:
        print(__doc__)
        return 2
    logging.disable()
    for line in report():
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
