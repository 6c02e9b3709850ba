"""JupyterLab alone beside JupyterLab through the hub: how much of the first cell's time is neither hub, cluster nor device.

Run ``python -m tests.bench.jupyterlab_alone``. In each round it starts JupyterLab through the hub of the demo, with a warm device,
and JupyterLab alone with several settings: a process, without a hub and a cluster. They follow one another, so that a machine whose speed varies
is the same for all, and the ratios of a round say more than seconds. A browser without a cache opens the same notebook and runs a cell as in
`tests.bench.first_cell`. Alone, the time begins where the click would be, with the process; the page is asked for as soon as the
server listens.

From *without rfc3987-syntax* on, each line adds its settings to those of the line before. "Notebook 7" is measured where the package ``notebook`` is
installed. ``--only`` takes some lines: words of their titles.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, sync_playwright

import dra_spawner.devcluster.demo
from dra_spawner.user_server.first_kernel import WANTED
from tests.bench.figures import Progress, options_parser, quantile, ratios
from tests.bench.first_cell import PodTimes, first_cell, processor_seconds, run_cell, stop_all, until_warm
from tests.bench.measured_hubs import LONGEST_SECONDS, MeasuredHub, demo
from tests.browser.chromium import chromium
from tests.polling import eventually_sync

_THROUGH_HUB: Final = "through the hub of the demo, warm device"
_AS_INSTALLED: Final = "alone, as pip installs it"
_DEMO_FILES: Final = Path(dra_spawner.devcluster.demo.__file__).with_name("jupyter")
_NOTEBOOK: Final = "welcome.ipynb"
_PROGRAM: Final = "from {module} import main; main()"
_NO_GRAMMAR: Final = "import sys; sys.modules['rfc3987_syntax'] = None; " + _PROGRAM
#: What a class that only runs notebooks does without. Users see that it is missing.
_RARELY_USED: Final = tuple(
    f"@jupyterlab/{each}-extension"
    for each in (
        *("console", "csvviewer", "debugger", "help", "htmlviewer", "hub", "imageviewer", "inspector", "javascript"),
        *("json", "logconsole", "mermaid", "pdf", "pluginmanager", "running", "settingeditor", "toc", "vega5"),
    )
)
#: Processor seconds, in the order of the table.
_PROCESSORS: Final = ("Jupyter server", "kernel", "page")


@dataclass(frozen=True)
class Alone:
    """A way to start a Jupyter Server without a hub.

    Attributes
    ----------
    program
        Python's program, with the module of the application.
    module
        The application.
    page
        Address of the notebook's page, before its path.
    variables
        Environment of the server.
    is_lean
        Whether it has the files of the demo's servers.
    without
        Further extensions of the page that are left out.
    """

    program: str = _NO_GRAMMAR
    module: str = "jupyterlab.labapp"
    page: str = "/lab/tree/"
    variables: Mapping[str, str] = field(default_factory=dict)
    is_lean: bool = True
    without: Sequence[str] = ()


_FIRST_KERNEL: Final = {WANTED: "1", "JUPYTERHUB_DEFAULT_URL": f"/lab/tree/{_NOTEBOOK}"}
SETTINGS: Final = {
    _AS_INSTALLED: Alone(program=_PROGRAM, is_lean=False),
    "alone, without compiled files": Alone(
        program=_PROGRAM,
        is_lean=False,
        # As where they are missing and the packages cannot be written.
        variables={"PYTHONPYCACHEPREFIX": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"},
    ),
    "alone, without rfc3987-syntax": Alone(is_lean=False),
    "… and with the two files of the demo": Alone(),
    "… and with the first kernel": Alone(variables=_FIRST_KERNEL),
    "… and with a smaller page": Alone(variables=_FIRST_KERNEL, without=_RARELY_USED),
}
if importlib.util.find_spec("notebook"):
    SETTINGS["… instead of it, Notebook 7"] = Alone(
        module="notebook.app",
        page="/notebooks/",
        variables={WANTED: "1", "JUPYTERHUB_DEFAULT_URL": f"/notebooks/{_NOTEBOOK}"},
    )


def _configuration(directory: Path, how: Alone) -> Path:
    """A directory of configuration files."""
    path = directory / "jupyter"
    if not how.is_lean:
        path.mkdir()
        return path
    shutil.copytree(_DEMO_FILES, path)
    page = path / "labconfig" / "page_config.json"
    config = json.loads(page.read_text())
    config["disabledExtensions"] |= dict.fromkeys(how.without, True)
    page.write_text(json.dumps(config))
    return path


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def alone(browser: Browser, how: Alone) -> dict[str, float]:
    """Seconds of one start until a cell has its output, and of processors."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    page = browser.new_page()
    page.set_default_timeout(LONGEST_SECONDS * 1000)
    with tempfile.TemporaryDirectory(prefix="jupyterlab-alone-") as name:
        home = Path(name)
        shutil.copy(_DEMO_FILES / _NOTEBOOK, home)
        command = [sys.executable, "-c", how.program.format(module=how.module), "--no-browser", "--allow-root"]
        options = {"ServerApp.port": port, "IdentityProvider.token": "alone", "ServerApp.root_dir": home}
        places = {"HOME": name, "JUPYTER_RUNTIME_DIR": str(home / "runtime")}
        places["JUPYTER_CONFIG_PATH"] = str(_configuration(home, how))
        began = time.time()
        with (home / "server.log").open("wb") as log:
            server = subprocess.Popen(
                [*command, *(f"--{option}={value}" for option, value in options.items())],
                env={**os.environ, **places, **how.variables},
                cwd=home,
                stdout=log,
                stderr=log,
            )
        try:
            eventually_sync(lambda: _listens(port) or server.poll() is not None, "it listens", LONGEST_SECONDS)
            assert server.poll() is None, (home / "server.log").read_text()
            browsed = processor_seconds("chromium")
            page.goto(f"http://127.0.0.1:{port}{how.page}{_NOTEBOOK}?token=alone", wait_until="commit")
            run_cell(page)
            seconds = (
                time.time() - began,
                processor_seconds(how.module),
                processor_seconds("ipykernel_launcher"),
                processor_seconds("chromium") - browsed,
            )
        finally:
            page.close()
            server.kill()  # asked to end, it may wait for a thread for ever; its kernel ends without it
            server.wait()
    return dict(zip(("whole", *_PROCESSORS), seconds, strict=True))


def through_hub(browser: Browser, running: MeasuredHub, pods: PodTimes) -> dict[str, float]:
    """The same of one start through the hub."""
    until_warm(running)
    parts = first_cell(browser, running, pods, "gpu-slice")
    stop_all(running)
    return {"whole": parts["whole"]} | {each: parts[f"processors: {each}"] for each in _PROCESSORS}


def table(runs: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    """Seconds and processor seconds of each way to start, and their ratios to the first one's."""
    lines = [
        "| start | whole: median s | p95 s | of the first, by rounds | processors: Jupyter server | kernel | page | all | of the first, by rounds |\n"
        "|---|---|---|---|---|---|---|---|---|\n"
    ]
    (first, *_) = runs.values()

    def processors(start: Mapping[str, float]) -> float:
        return sum(start[each] for each in _PROCESSORS)

    for title, starts in runs.items():
        whole = [each["whole"] for each in starts]
        used = [statistics.median(each[part] for each in starts) for part in _PROCESSORS]
        cells = [
            title,
            f"{statistics.median(whole):.1f}",
            f"{quantile(whole, 0.95):.1f}",
            ratios(whole, [each["whole"] for each in first]),
            *(f"{each:.2f}" for each in used),
            f"{statistics.median(map(processors, starts)):.2f}",
            ratios([*map(processors, starts)], [*map(processors, first)]),
        ]
        lines.append(f"| {' | '.join(cells)} |\n")
    return "".join(lines)


def compared(runs: Mapping[str, Sequence[Mapping[str, float]]], title: str) -> str:
    """A sentence that compares a way to start alone with the start through the hub."""
    own, hubs = ([each["whole"] for each in runs[name]] for name in (title, _THROUGH_HUB))
    difference = statistics.median(hub - one for hub, one in zip(hubs, own, strict=True))
    shown = (f"{statistics.median(each):.1f} / {quantile(each, 0.95):.1f} s" for each in (own, hubs))
    return "JupyterLab {}: {}; through the hub and a warm device: {}; the difference: {:+.1f} s\n".format(
        title, *shown, difference
    )


def main(arguments: list[str] | None = None) -> int:
    """Print the table and the sentences."""
    parser = options_parser(__doc__, rounds=8)
    parser.add_argument("--only", nargs="*", default=[""], help="words of titles")
    options = parser.parse_args(arguments)
    path, flags = chromium()
    runs = defaultdict[str, list[dict[str, float]]](list)
    loads, report = [os.getloadavg()[0]], Progress("JupyterLab alone")
    with demo() as running, sync_playwright() as driver:
        pods = PodTimes()
        threading.Thread(target=pods.follow, args=(running,), daemon=True).start()
        browser = driver.chromium.launch(executable_path=path, args=flags)
        ways: dict[str, Callable[[], dict[str, float]]] = {
            title: lambda how=how: alone(browser, how) for title, how in SETTINGS.items()
        } | {_THROUGH_HUB: lambda: through_hub(browser, running, pods)}
        chosen = [title for title in ways if any(word in title for word in options.only)]
        for number in range(options.rounds + 1):
            for title in chosen:
                found = ways[title]()
                report(f"round {number}, {title}: {found}")
                if number:  # the first round fills the machine's caches of files
                    runs[title].append(found)
            loads.append(os.getloadavg()[0])
        browser.close()
    sys.stdout.write(f"{options.rounds} rounds, load {min(loads):.1f} to {max(loads):.1f}\n\n{table(runs)}\n")
    if _THROUGH_HUB in runs:
        sys.stdout.write("".join(compared(runs, title) for title in runs if title != _THROUGH_HUB))
    return 0


if __name__ == "__main__":
    sys.exit(main())
