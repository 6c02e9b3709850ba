"""From the click to the first executed cell, as a browser sees it, cut into the parts of those who take the time.

Run ``python -m tests.bench.first_cell``. It starts the demo (`dra-spawner demo`): JupyterHub, service and servers are processes, and the
cluster is the embedded one. A user clicks *Start*, JupyterLab opens a notebook, and a cell prints a random number. It is done some times with a
warm placeholder (``gpu-slice``) and some times without one (``gpu-whole``), by one user; then once while other users start servers at the
same moment.

| part | from | until |
|---|---|---|
| hub | the click | the pod exists; without the next |
| service | the hub asks for a placement | the answer (the service's own metric) |
| scheduling | the pod exists | it has a node |
| container | it has a node | its container runs |
| Jupyter server | the container runs | the browser gets the first byte of the server's page |
| page | that byte | the cell has its output |

A watch of pods tells the moments of the pod. Browser, hub and this program are on one machine, and have one clock.
Beside the seconds stands the processor time of the two that need most: the server's process until the cell has its
output, and the browser from the server's first byte on. Where other programs use the machine, it says more than the
seconds. ``--known-browser`` keeps the browser's cache from one start to the next: it has the page's programs then.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, BrowserContext, Page, Response, sync_playwright

from dra_spawner import names
from tests.bench.figures import options_parser, quantile
from tests.browser.chromium import chromium
from tests.polling import eventually_sync

_PARTS: Final = ("hub", "service", "scheduling", "container", "Jupyter server", "page")
_PROCESSORS: Final = ("processors: Jupyter server", "processors: page")
_SERVER: Final = "dra_spawner.devcluster.demo.user_server"
_LONGEST_SECONDS: Final = 600.0
_USER: Final = "admin"


@dataclass
class Demo:
    """A demo at work."""

    address: str
    password: str
    token: str
    cluster: str
    cluster_token: str

    def api(self, method: str, path: str, body: Any = None) -> Any:
        """The answer of the hub's API."""
        data = None if body is None else json.dumps(body).encode()
        return self._ask(urllib.request.Request(f"{self.address}/hub/api{path}", data, method=method))

    def service(self, path: str) -> str:
        """The answer of the service."""
        return str(self._ask(urllib.request.Request(f"{self.address}/services/dra-spawner/{path}")))

    def _ask(self, request: urllib.request.Request) -> Any:
        request.add_header("Authorization", f"token {self.token}")
        with urllib.request.urlopen(request, timeout=_LONGEST_SECONDS) as answer:
            text = answer.read().decode()
        return json.loads(text) if text.startswith(("{", "[")) else text

    def pods(self, query: str = "") -> urllib.request.Request:
        """A request for the pods of the cluster."""
        url = f"{self.cluster}/api/v1/namespaces/default/pods{query}"
        return urllib.request.Request(url, headers={"Authorization": f"Bearer {self.cluster_token}"})

    def warm(self) -> int:
        """Number of placeholders that run."""
        with urllib.request.urlopen(self.pods(), timeout=_LONGEST_SECONDS) as answer:
            pods = json.load(answer)["items"]
        return sum(
            each["metadata"].get("labels", {}).get(names.COMPONENT) == names.PLACEHOLDER
            and each["status"].get("phase") == "Running"
            for each in pods
        )

    def placement_seconds(self) -> float:
        """Time that the service has spent with answers about placements so far."""
        found = re.search(r"^dra_spawner_placement_answer_seconds_sum (\S+)", self.service("metrics"), re.M)
        return float(found[1]) if found else 0.0


@contextmanager
def demo() -> Iterator[Demo]:
    """A demo until the end of the block."""
    command = [str(Path(sys.executable).with_name("dra-spawner")), "demo", "--port", "0", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    said = []
    try:
        for line in process.stdout:
            said.append(line)
            if "Ctrl-C stops everything" in line:
                break
        text = "".join(said)
        address, password, token, kubeconfig = (
            re.findall(pattern, text)[0]
            for pattern in (r"Open +(http\S+)", r"User, password .*, (\S+)", r"API token +(\S+)", r"kubeconfig +(\S+)")
        )
        config = json.loads(Path(kubeconfig).read_text())
        cluster, user = config["clusters"][0]["cluster"]["server"], config["users"][0]["user"]["token"]
        yield Demo(address, password, token, cluster, user)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=_LONGEST_SECONDS)


@dataclass
class PodTimes:
    """Moments of a pod, by its name, as a watch tells them."""

    made: dict[str, float] = field(default_factory=dict)
    bound: dict[str, float] = field(default_factory=dict)
    runs: dict[str, float] = field(default_factory=dict)

    def follow(self, demo: Demo) -> None:
        """Watch the pods until the demo ends."""
        try:
            with urllib.request.urlopen(demo.pods("?watch=true&timeoutSeconds=86400")) as lines:
                for line in lines:
                    event = json.loads(line)
                    self._note(event["type"], event["object"], time.time())
        except (OSError, ValueError):
            return  # the demo has ended

    def _note(self, kind: str, pod: dict[str, Any], now: float) -> None:
        name = pod.get("metadata", {}).get("name", "")
        if kind == "DELETED":
            for moments in (self.made, self.bound, self.runs):
                moments.pop(name, None)
            return
        self.made.setdefault(name, now)
        if pod["spec"].get("nodeName"):
            self.bound.setdefault(name, now)
        if any("running" in each.get("state", {}) for each in pod["status"].get("containerStatuses") or ()):
            self.runs.setdefault(name, now)


_TICKS: Final = os.sysconf("SC_CLK_TCK")


def processor_seconds(word: str) -> float:
    """Processor time so far of all processes whose command line has a word; of those that have ended only a part."""
    total = 0.0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if word.encode() in (process / "cmdline").read_bytes():
                found = (process / "stat").read_text().rpartition(")")[2].split()
                total += (int(found[11]) + int(found[12])) / _TICKS
        except OSError:
            continue  # it has ended meanwhile
    return total


def first_cell(browser: Browser | BrowserContext, running: Demo, pods: PodTimes, profile: str) -> dict[str, float]:
    """Seconds of each part of one start, of the whole, and of processors."""
    page = browser.new_page()
    page.set_default_timeout(_LONGEST_SECONDS * 1000)
    served: list[float] = []
    used: list[float] = []

    def note(response: Response) -> None:
        if response.ok and re.search(rf"/user/{_USER}/lab", response.url):
            served.append(time.time())
            used.append(processor_seconds("chromium"))

    page.on("response", note)
    page.goto(running.address)
    if page.locator("input[name=username]").count():
        page.fill("input[name=username]", _USER)
        page.fill("input[name=password]", running.password)
        page.click("input[type=submit]")
    page.locator(f"#profile-item-{profile}, input[value={profile}]").first.click()
    spent = running.placement_seconds()
    clicked = time.time()
    page.get_by_role("button", name="Start").click()
    page.wait_for_url(f"**/user/{_USER}/lab**")
    _run_cell(page)
    done, pod = time.time(), f"jupyter-{_USER}"
    processors = (processor_seconds(_SERVER), processor_seconds("chromium") - used[0])
    page.close()
    made, bound, runs = pods.made[pod], pods.bound[pod], pods.runs[pod]
    service = running.placement_seconds() - spent
    parts = (made - clicked - service, service, bound - made, runs - bound, served[0] - runs, done - served[0])
    seconds = dict(zip(_PARTS, parts, strict=True)) | {"whole": done - clicked}
    return seconds | dict(zip(_PROCESSORS, processors, strict=True))


def _run_cell(page: Page) -> None:
    page.locator(".jp-LauncherCard[data-category=Notebook]").first.click()
    page.get_by_text("| Idle").wait_for()
    page.locator(".jp-Notebook .jp-CodeCell .cm-content").first.click()
    number = secrets.randbelow(10**6)
    page.keyboard.type(f"{number} * 7 + 1")
    page.keyboard.press("Shift+Enter")
    page.locator(".jp-OutputArea-output", has_text=str(number * 7 + 1)).first.wait_for()


def stop_all(running: Demo) -> None:
    """Stop all servers, and wait until they are gone."""
    for user in running.api("GET", "/users?state=active"):
        for server in user["servers"]:
            running.api(
                "DELETE", f"/users/{user['name']}/servers/{server}" if server else f"/users/{user['name']}/server"
            )
    eventually_sync(lambda: not running.api("GET", "/users?state=active"), "all servers are stopped", _LONGEST_SECONDS)


def start_others(running: Demo, number: int) -> list[threading.Thread]:
    """Users whose clicks come at the same moment, by the hub's API."""
    users = [f"user-{each}" for each in range(number)]
    running.api("POST", "/users", {"usernames": users})
    # The demo has 16 such shares, and the user needs up to two.
    bodies: list[dict[str, str]] = [{"profile": "cpu"}, {"profile": "gpu-slice", "memory": "5Gi"}]
    threads = [
        threading.Thread(target=running.api, args=("POST", f"/users/{user}/server", bodies[each % 2]), daemon=True)
        for each, user in enumerate(users)
    ]
    for each in threads:
        each.start()
    return threads


def table(title: str, runs: list[dict[str, float]]) -> str:
    """Median and 95th percentile of each part."""
    lines = [f"\n{title}: {len(runs)} starts\n| part | median s | p95 s |\n|---|---|---|\n"]
    for part in (*_PARTS, "whole", *_PROCESSORS):
        seconds = sorted(each[part] for each in runs)
        lines.append(f"| {part} | {seconds[len(seconds) // 2]:.3f} | {quantile(seconds, 0.95):.3f} |\n")
    return "".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Print the tables."""
    parser = options_parser(__doc__, rounds=5, others=29)
    parser.add_argument("--known-browser", action="store_true", help="keep the browser's cache")
    options = parser.parse_args(arguments)
    path, flags = chromium()
    with demo() as running, sync_playwright() as driver:
        pods = PodTimes()
        threading.Thread(target=pods.follow, args=(running,), daemon=True).start()
        browser = driver.chromium.launch(executable_path=path, args=flags)
        opens = browser.new_context() if options.known_browser else browser
        for title, profile in (("warm, one user", "gpu-slice"), ("cold, one user", "gpu-whole")):
            runs = []
            for _ in range(options.rounds):
                eventually_sync(lambda: running.warm() >= 2, "placeholders are warm", _LONGEST_SECONDS)
                runs.append(first_cell(opens, running, pods, profile))
                stop_all(running)
            if runs:
                sys.stdout.write(table(title, runs))
                sys.stdout.flush()
        if options.others:
            eventually_sync(lambda: running.warm() >= 2, "placeholders are warm", _LONGEST_SECONDS)
            threads = start_others(running, options.others)
            sys.stdout.write(
                table(f"one user beside {options.others} others", [first_cell(browser, running, pods, "gpu-slice")])
            )
            for each in threads:
                each.join(_LONGEST_SECONDS)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
