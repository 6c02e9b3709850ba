"""What a hub imports of this package: counted in the text of its modules, or in a process that runs a hub.

Run ``python -m tests.hub_imports``: modules, lines and processor time of ``import dra_spawner.spawner`` on top of
KubeSpawner's own. With the kubeconfig and the namespace of a cluster, and the port of users' servers, the process goes on as a hub:
it begins as with ``setup(c)``, shows a form, and starts a server with a share of a GPU (``tests/integration/test_hub_imports.py``).
"""

from __future__ import annotations

import ast
import asyncio
import json
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

__all__ = ["SPAWNER", "imported_with", "line_count"]

SPAWNER: Final = "dra_spawner.spawner"
ROOT: Final = Path(__file__).parents[1]


def imported_with(module: str) -> set[str]:
    """Modules of this package that the import of one of them imports, itself included."""
    found: set[str] = set()
    pending = [module]
    while pending:
        name = pending.pop()
        if name and name not in found:
            found.add(name)
            pending += [name.rpartition(".")[0], *_imports_of(name)]
    return found


def line_count(modules: Iterable[str]) -> int:
    """Number of lines in these modules."""
    return sum(len(_path(each).read_text().splitlines()) for each in modules)


def _imports_of(module: str) -> Iterator[str]:
    for each in _executed(ast.parse(_path(module).read_text()).body):
        names = [alias.name for alias in each.names]
        if isinstance(each, ast.ImportFrom):
            below = [f"{each.module}.{name}" for name in names]
            names = [name if _path(name).exists() else str(each.module) for name in below]
        yield from (name for name in names if name.partition(".")[0] == "dra_spawner")


def _executed(body: Iterable[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports that run when a module is imported."""
    for each in body:
        if isinstance(each, ast.Import | ast.ImportFrom):
            yield each
        elif isinstance(each, ast.If) and ast.unparse(each.test) == "TYPE_CHECKING":
            yield from _executed(each.orelse)
        elif not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            for part in ("body", "orelse", "finalbody"):
                yield from _executed(getattr(each, part, ()))


def _path(module: str) -> Path:
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


# --- the process ------------------------------------------------------------------------------------------------------


def _report(stage: str, seconds: float) -> None:
    # A namespace package has no file.
    ours = [name for name, module in sys.modules.items() if name.partition(".")[0] == "dra_spawner" and module.__file__]
    print(
        json.dumps(
            {"stage": stage, "count": len(ours), "lines": line_count(ours), "seconds": seconds, "modules": sorted(ours)}
        )
    )


async def _be_a_hub(kubeconfig: Path, namespace: str, port: int) -> None:
    from jupyterhub.app import JupyterHub

    from tests.spawner.hub_side import HubSide, end_hub_side, kubernetes_of

    gpu = {"device_class": "gpu-share.example.com", "capacity": {"memory": "5Gi"}}
    with kubernetes_of(kubeconfig):
        side = HubSide(kubeconfig, namespace)
        side.spawner_config.port = port
        side.spawner_config.profile_list = [
            {"display_name": "GPU", "slug": "gpu", "kubespawner_override": {"device_claims": {"gpu": gpu}}}
        ]
        spawner = side.user("ada").spawner
        try:
            form = await spawner.get_options_form()
            assert "GPU" in form
            _report("form", time.process_time())
            await side.user("ada").spawn("", {"profile": "gpu"})
            _report("start", time.process_time())

            from dra_spawner.hub import begin

            hub = JupyterHub.instance(config=side.config, spawner_class=side.spawner_class)
            begin(hub)
            _report("setup", time.process_time())
        finally:
            await end_hub_side()


def main() -> None:
    """Print a line of JSON for each stage."""
    import kubespawner  # noqa: F401

    before = time.process_time()
    import dra_spawner.spawner  # noqa: F401

    _report("import", time.process_time() - before)
    if len(sys.argv) > 1:
        kubeconfig, namespace, port = sys.argv[1:]
        asyncio.run(_be_a_hub(Path(kubeconfig), namespace, int(port)))


if __name__ == "__main__":
    main()
