"""From the click to the first executed cell, as a browser sees it, cut into the parts of those who take the time.

Run ``python -m tests.bench.first_cell``. It starts the demo (`dra-spawner demo`): JupyterHub, service and servers are processes, and the
cluster is the embedded one. With ``--real-node`` the control plane is a real one, and servers and placeholders are containers of a real
kubelet with containerd and DRA drivers; that needs root, and what ``tests/node`` needs. The start of the cluster is in no figure.

A user clicks *Start*, JupyterLab opens with a notebook, whose kernel starts while the page loads, and a cell prints a random number. It is done some times with a
warm placeholder (``gpu-slice``) and some times without one (``gpu-whole``), by one user; then once while other users start servers at the
same moment. Of these the same parts are shown up to the moment when the hub says that the server is ready.

| part | from | until |
|---|---|---|
| hub | the click | the pod exists; without the next |
| service | the hub asks for a placement | the answer (the service's own metric; the mean of several starts) |
| scheduling | the pod exists | it has a node |
| container | it has a node | the server's process begins |
| Jupyter server | the process begins | the browser gets the first byte of the server's page |
| page | that byte | the cell has its output |

A watch of pods tells the moments of the pod, and the table of processes the
begin of the server. "kubelet's report" is how much later the pod is called running; the hub waits for it. Browser, hub, node and this
program are on one machine, and have one clock.
It also prints the processor time of the server's process and of the kernel until the cell has its output, and of the
browser from the server's first byte on. Where other programs use the machine, it says more than the
seconds. ``--known-browser`` keeps the browser's cache from one start to the next: it has the page's programs then.

On the real node, ``--servers launcher`` opens JupyterLab with its launcher, in which the user makes a notebook. ``--servers quick`` gives
all users a small program instead of JupyterLab: only hub, service, cluster and container need processors then.
``--servers kubespawner`` starts the same program with KubeSpawner and without devices: what its hub takes, JupyterHub and KubeSpawner
take in any hub.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, get_args

from playwright.sync_api import Browser, BrowserContext, Page, Response, sync_playwright

from tests.bench.figures import options_parser, quantile
from tests.bench.measured_hubs import LONGEST_SECONDS, MeasuredHub, Servers, demo, real_node
from tests.browser.chromium import chromium
from tests.cluster.harness_binary import BinaryUnavailable
from tests.node.machine import NoRealNode
from tests.polling import eventually_sync

_BEFORE_NODE: Final = ("hub", "service", "scheduling")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_KERNEL: Final = "ipykernel_launcher"
_BROWSER: Final = "chromium"
Choices = Mapping[str, Mapping[str, str]]
#: Choices of the form: with a warm placeholder, and without one.
_CHOICES: Final[Choices] = {"warm": {"profile": "gpu-slice"}, "cold": {"profile": "gpu-whole"}}
_PLAIN: Final[Choices] = {"KubeSpawner": {"profile": "cpu"}}


@dataclass
class PodTimes:
    """Moments of a pod, by its name, as a watch tells them."""

    made: dict[str, float] = field(default_factory=dict)
    bound: dict[str, float] = field(default_factory=dict)
    runs: dict[str, float] = field(default_factory=dict)

    def follow(self, running: MeasuredHub) -> None:
        """Watch the pods until the cluster ends."""
        try:
            with running.pods("?watch=true&timeoutSeconds=86400") as lines:
                for line in lines:
                    event = json.loads(line)
                    self._note(event["type"], event["object"], time.time())
        except (OSError, ValueError):
            return  # the cluster has ended

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

    def parts(self, user: str, clicked: float, service: float, began: float) -> dict[str, float]:
        """Seconds of the parts until the server's process begins, and of the first three together."""
        pod = f"jupyter-{user}"
        made, bound = self.made[pod], self.bound[pod]
        parts = dict(zip(_BEFORE_NODE, (made - clicked - service, service, bound - made), strict=True))
        return parts | {
            "the three": bound - clicked,
            "container": began - bound,
            "kubelet's report": self.runs[pod] - began,
        }


def _processes(word: str) -> list[tuple[Path, list[str]]]:
    """Processes that this one has started, directly or not, whose command line has a word.

    Each comes with the fields of its ``stat`` from the third one on. Other programs of this machine do not count.
    """
    every: dict[str, list[str]] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            every[process.name] = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
    children: dict[str, list[str]] = {}
    for name, fields in every.items():
        children.setdefault(fields[1], []).append(name)
    found, left = [], [str(os.getpid())]
    while left:
        for name in children.get(left.pop(), ()):
            left.append(name)
            try:
                if word.encode() in Path("/proc", name, "cmdline").read_bytes():
                    found.append((Path("/proc", name), every[name]))
            except OSError:
                continue  # it has ended meanwhile
    return found


def processor_seconds(word: str) -> float:
    """Processor time so far of all processes whose command line has a word; of those that have ended only a part."""
    return sum((int(found[11]) + int(found[12])) / _TICKS for _, found in _processes(word))


def server_begins(running: MeasuredHub) -> dict[str, float]:
    """Moments at which the processes of users' servers began, by user."""
    switched_on = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    begins: dict[str, float] = {}
    for process, found in _processes(running.server):
        try:
            variables = (process / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended meanwhile
        for user in (each[len(b"JUPYTERHUB_USER=") :] for each in variables if each.startswith(b"JUPYTERHUB_USER=")):
            began = switched_on + int(found[19]) / _TICKS
            begins[user.decode()] = min(began, begins.get(user.decode(), began))
    return begins


def first_cell(
    browser: Browser | BrowserContext, running: MeasuredHub, pods: PodTimes, profile: str
) -> dict[str, float]:
    """Seconds of each part of one start, of the whole, and of processors."""
    page = browser.new_page()
    page.set_default_timeout(LONGEST_SECONDS * 1000)
    served: list[float] = []
    used: list[float] = []

    def note(response: Response) -> None:
        if response.ok and re.search(rf"/user/{running.user}/lab", response.url):
            served.append(time.time())
            used.append(processor_seconds(_BROWSER))

    page.on("response", note)
    page.goto(running.address)
    if page.locator("input[name=username]").count():
        page.fill("input[name=username]", running.user)
        page.fill("input[name=password]", running.password)
        page.click("input[type=submit]")
    page.locator(f"#profile-item-{profile}, input[value={profile}]").first.click()
    spent = running.placement_seconds()
    clicked = time.time()
    page.get_by_role("button", name="Start").click()
    page.wait_for_url(f"**/user/{running.user}/lab**")
    shown = run_cell(page)
    done = time.time()
    processors = {
        "processors: Jupyter server": processor_seconds(running.server),
        "processors: kernel": processor_seconds(_KERNEL),
        "processors: page": processor_seconds(_BROWSER) - used[0],
    }
    page.close()
    began = server_begins(running)[running.user]
    seconds = pods.parts(running.user, clicked, running.placement_seconds() - spent, began)
    rest = {
        "Jupyter server": served[0] - began,
        "page": done - served[0],
        "page until JupyterLab is shown": shown - served[0],
    }
    return seconds | rest | {"whole": done - clicked} | processors


def run_cell(page: Page) -> float:
    """Run a cell in the notebook that is open, or in a new one; the moment when JupyterLab or Notebook showed itself."""
    card = page.locator(".jp-LauncherCard[data-category=Notebook]").first
    cell = page.locator(".jp-Notebook .jp-CodeCell .cm-content").first
    card.or_(cell).first.wait_for()
    shown = time.time()
    if card.is_visible():
        card.click()
    # JupyterLab says it in words; in Notebook 7 the word fades.
    page.get_by_text("| Idle").or_(page.locator(".jp-NotebookKernelStatus-fade")).first.wait_for()
    cell.click()
    number = secrets.randbelow(10**6)
    page.keyboard.press("Control+A")
    page.keyboard.type(f"{number} * 7 + 1")
    page.keyboard.press("Shift+Enter")
    page.locator(".jp-OutputArea-output", has_text=str(number * 7 + 1)).first.wait_for()
    return shown


def stop_all(running: MeasuredHub) -> None:
    """Stop all servers, and wait until they are gone."""
    for user in running.api("GET", "/users?state=active"):
        for server in user["servers"]:
            running.api(
                "DELETE", f"/users/{user['name']}/servers/{server}" if server else f"/users/{user['name']}/server"
            )
    eventually_sync(lambda: not running.api("GET", "/users?state=active"), "all servers are stopped", LONGEST_SECONDS)


@dataclass
class Starts:
    """Starts of users by the hub's API, all at the same moment."""

    running: MeasuredHub
    bodies: Mapping[str, Mapping[str, str]]
    """By user."""
    clicked: dict[str, float] = field(default_factory=dict)
    ready: dict[str, float] = field(default_factory=dict)
    _threads: list[threading.Thread] = field(default_factory=list)
    _spent: float = 0.0

    def begin(self) -> None:
        """Ask for all servers."""
        known = {each["name"] for each in self.running.api("GET", "/users?limit=200")}
        if new := sorted(self.bodies.keys() - known):
            self.running.api("POST", "/users", {"usernames": new})
        self._spent = self.running.placement_seconds()
        self._threads = [threading.Thread(target=self._start, args=(user,), daemon=True) for user in self.bodies]
        for each in self._threads:
            each.start()

    def _start(self, user: str) -> None:
        self.clicked[user] = time.time()
        self.running.api("POST", f"/users/{user}/server", self.bodies[user])
        self.running.until_ready(user)
        self.ready[user] = time.time()

    def parts(self, pods: PodTimes) -> list[dict[str, float]]:
        """Wait for all; seconds of each part of each start."""
        for each in self._threads:
            each.join(LONGEST_SECONDS)
        begins, service = (
            server_begins(self.running),
            (self.running.placement_seconds() - self._spent) / len(self.bodies),
        )
        return [
            pods.parts(user, self.clicked[user], service, begins[user])
            | {"Jupyter server": ready - begins[user], "whole, without the page": ready - self.clicked[user]}
            for user, ready in self.ready.items()
        ]


def others(running: MeasuredHub, number: int) -> Starts:
    """Users whose clicks come at the same moment: half of them without a device."""
    # The cluster has 16 such shares, and the user needs up to two.
    bodies: list[dict[str, str]] = [{"profile": "cpu"}, {"profile": "gpu-slice", "memory": "5Gi"}]
    if not running.has_devices:
        bodies[1] = bodies[0]
    return Starts(running, {f"user-{each}": bodies[each % 2] for each in range(number)})


def table(title: str, runs: list[dict[str, float]]) -> str:
    """Median and 95th percentile of each part."""
    lines = [
        f"\n{title}: {len(runs)} starts, load {os.getloadavg()[0]:.1f}\n| part | median s | p95 s |\n|---|---|---|\n"
    ]
    for part in runs[0]:
        seconds = sorted(each[part] for each in runs)
        lines.append(f"| {part} | {seconds[len(seconds) // 2]:.3f} | {quantile(seconds, 0.95):.3f} |\n")
    return "".join(lines)


def until_warm(running: MeasuredHub) -> None:
    """Wait until the user's share is warm."""
    if running.has_devices:
        eventually_sync(lambda: running.warm() >= 2, "placeholders are warm", LONGEST_SECONDS)


def _say(title: str, runs: list[dict[str, float]]) -> None:
    if runs:
        sys.stdout.write(table(title, runs))
        sys.stdout.flush()


def measure_pages(running: MeasuredHub, pods: PodTimes, rounds: int, crowds: list[int], knows: bool) -> None:
    """Print the tables of a browser."""
    path, flags = chromium()
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=flags)
        opens = browser.new_context() if knows else browser
        for title, choice in _CHOICES.items():
            runs = []
            for _ in range(rounds):
                until_warm(running)
                runs.append(first_cell(opens, running, pods, choice["profile"]))
                stop_all(running)
            _say(f"{title}, one user", runs)
        for number in crowds:
            until_warm(running)
            starts = others(running, number)
            starts.begin()
            _say(f"one user beside {number} others", [first_cell(browser, running, pods, "gpu-slice")])
            _say(f"the {number} others, until the hub says ready", starts.parts(pods))
            stop_all(running)
        browser.close()


def measure_quick(running: MeasuredHub, pods: PodTimes, rounds: int, crowds: list[int]) -> None:
    """Print the tables of servers that need no time, without a browser."""
    for title, choice in (_CHOICES if running.has_devices else _PLAIN).items():
        runs = []
        for _ in range(rounds):
            until_warm(running)
            starts = Starts(running, {running.user: choice})
            starts.begin()
            runs += starts.parts(pods)
            stop_all(running)
        _say(f"{title}, one user", runs)
    for number in crowds:
        until_warm(running)
        starts = others(running, number)
        starts.begin()
        _say(f"{number} at once", starts.parts(pods))
        stop_all(running)


def main(arguments: list[str] | None = None) -> int:
    """Print the tables."""
    parser = options_parser(__doc__, rounds=5)
    parser.add_argument("--others", type=int, nargs="*", default=[29], help="numbers of users beside the one")
    parser.add_argument("--known-browser", action="store_true", help="keep the browser's cache")
    parser.add_argument("--real-node", action="store_true", help="servers are containers of a real kubelet")
    parser.add_argument("--servers", choices=get_args(Servers), default="jupyterlab", help="on the real node")
    options = parser.parse_args(arguments)
    servers: Servers = options.servers
    if servers != "jupyterlab" and not options.real_node:
        parser.error("--servers needs --real-node")
    try:
        with real_node(servers) if options.real_node else demo() as running:
            pods = PodTimes()
            threading.Thread(target=pods.follow, args=(running,), daemon=True).start()
            if servers in ("jupyterlab", "launcher"):
                measure_pages(running, pods, options.rounds, options.others, options.known_browser)
            else:
                measure_quick(running, pods, options.rounds, options.others)
            if options.real_node:
                sys.stdout.write("".join(f"The cluster warned: {each}\n" for each in running.warnings()))
    except (NoRealNode, BinaryUnavailable) as reason:
        sys.stderr.write(f"No real node here: {reason}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
