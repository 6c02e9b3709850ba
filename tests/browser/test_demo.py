"""The README's demo as a newcomer runs it: the command, the address, a click, JupyterLab with a share."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dra_spawner import names
from tests.browser.chromium import chromium, picture_path
from tests.integration.devices import classes, node_with, shareable
from tests.polling import PATIENCE_SECONDS, eventually_sync

playwright = pytest.importorskip("playwright.sync_api")


@dataclass
class Demo:
    process: subprocess.Popen[str]
    lines: list[str]
    address: str = ""
    password: str = ""
    token: str = ""
    directory: Path = Path()
    arrived: queue.Queue[str | None] = field(default_factory=queue.Queue)

    def output(self) -> str:
        """The whole output, when the demo has ended."""
        while (line := self.arrived.get(timeout=PATIENCE_SECONDS)) is not None:
            self.lines.append(line)
        return "\n".join(self.lines)

    def api(self, path: str, body: dict | None = None) -> dict | None:
        """Answer of the hub's REST API; a body makes it a POST."""
        request = urllib.request.Request(
            f"{self.address}/hub/api{path}",
            headers={"Authorization": f"token {self.token}"},
            data=json.dumps(body).encode() if body is not None else None,
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
            text = answer.read()
            return json.loads(text) if text else None

    def object(self, plural: str, name: str) -> dict:
        """A namespaced object of the core group."""
        return self.cluster(f"/api/v1/namespaces/default/{plural}/{name}")

    def cluster(self, path: str) -> dict:
        """Answer of the embedded cluster's API server."""
        kubeconfig = json.loads((self.directory / "cluster" / "kubeconfig").read_text())
        server = kubeconfig["clusters"][0]["cluster"]["server"]
        token = kubeconfig["users"][0]["user"]["token"]
        request = urllib.request.Request(server + path, headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
            return json.load(answer)


def heed_signals() -> None:
    """React to signals: programs that a shell starts in the background, or with nohup, ignore them."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def run_demo(*options: str) -> subprocess.Popen[str]:
    """The demo as from a terminal: Ctrl-C reaches it even where the test run itself is in the background of a script."""
    return subprocess.Popen(
        [Path(sys.executable).with_name("dra-spawner"), "demo", "--port", "0", "--no-browser", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=heed_signals,
    )


def said(pattern: str, text: str) -> str:
    """The part of the demo's text that matches the pattern's group."""
    return str(re.findall(pattern, text)[0])


def start_demo(*options: str, within_seconds: float = 240) -> Demo:
    process = run_demo(*options)
    demo = Demo(process, [])
    arrived = demo.arrived

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            arrived.put(line.rstrip())
        arrived.put(None)

    threading.Thread(target=read, daemon=True).start()
    end = time.monotonic() + within_seconds
    while time.monotonic() < end:
        try:
            line = arrived.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            break
        if line is None:
            break
        demo.lines.append(line)
        if "Ctrl-C stops everything" in line:
            text = "\n".join(demo.lines)
            demo.address = said(r"Open +(http\S+)", text)
            demo.password = said(r"User, password .*, (\S+)", text)
            demo.token = said(r"API token +(\S+)", text)
            demo.directory = Path(said(r"JupyterHub's log +(\S+)", text)).parent
            return demo
    process.kill()
    pytest.fail("the demo did not start:\n" + "\n".join(demo.lines))


def stop_demo(demo: Demo) -> int:
    demo.process.send_signal(signal.SIGINT)
    return demo.process.wait(timeout=PATIENCE_SECONDS)


def reasons_on(demo: Demo, pod: str = "") -> set[str]:
    """Reasons of the Kubernetes Events on a pod, or on all."""
    events = demo.cluster("/apis/events.k8s.io/v1/namespaces/default/events")["items"]
    return {each["reason"] for each in events if pod in ("", each["regarding"]["name"])}


def warm_placeholders(demo: Demo) -> int:
    nodes = demo.cluster("/api/v1/nodes")["items"]
    ready = {each["metadata"]["name"] for each in nodes if names.IMAGES_READY in each["metadata"].get("labels", {})}
    pods = demo.cluster("/api/v1/namespaces/default/pods")["items"]
    placeholders = [
        each for each in pods if each["metadata"].get("labels", {}).get(names.COMPONENT) == names.PLACEHOLDER
    ]
    return sum(each["spec"].get("nodeName") in ready for each in placeholders)


def processes_in(directory: Path) -> list[str]:
    """Command lines of the processes that were started with this directory in their environment (Linux)."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(directory).encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue  # ended meanwhile, or another user's
    return found


@pytest.fixture
def browser():
    path, flags = chromium()
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=flags)
        yield browser
        browser.close()


def picture(page, name: str) -> None:
    if path := picture_path(name):
        page.screenshot(path=path)


def recorder():
    """Takes the next picture of a page, for the picture that moves (moving_picture.py)."""
    numbers = itertools.count(1)
    return lambda page: picture(page, f"frame-{next(numbers):02}")


def test_from_the_command_to_a_share_in_jupyterlab(browser):
    demo, record = start_demo(), recorder()
    try:
        eventually_sync(lambda: warm_placeholders(demo) >= 2, "placeholders are warm")
        page = browser.new_page(viewport={"width": 1100, "height": 760})
        page.set_default_timeout(PATIENCE_SECONDS * 1000)
        page.goto(demo.address)
        page.fill("input[name=username]", "admin")
        page.fill("input[name=password]", demo.password)
        page.click("input[type=submit]")

        page.get_by_text("GPU slice", exact=True).click()
        sizes = page.locator("select[name=profile-option-gpu-slice--memory] option")
        texts = [text.partition(" · ")[0] for text in sizes.all_inner_texts()]
        assert texts == [f"{size} GiB" for size in range(5, 45, 5)]
        assert page.locator("select[name=profile-option-gpu-slice--memory]").input_value() == "10Gi"
        picture(page, "demo-form")
        record(page)
        log = Path(said(r"JupyterHub's log +(\S+)", "\n".join(demo.lines))).read_text()
        assert "it answers 40" not in log, "the service lets the hub ask for availability"
        page.get_by_role("button", name="Start").click()
        # A server may be ready before the page that waits for it.
        page.locator("#progress-message", has_text="Yours").or_(page.locator(".jp-Notebook")).first.wait_for()
        record(page)

        page.wait_for_url("**/user/admin/lab**")
        # JupyterLab offers its news at some moment; a picture has none.
        page.add_style_tag(content=".Toastify { display: none }")
        record(page)
        page.get_by_text("| Idle").wait_for()
        cell = page.locator(".jp-Notebook .jp-CodeCell .cm-content", has_text="!env | sort | grep DRA_").first
        cell.click()
        record(page)
        page.keyboard.press("Shift+Enter")
        output = page.locator(".jp-OutputArea-output").filter(has_text="DRA_").filter(has_text="10Gi").first
        try:
            output.wait_for()
        except playwright.TimeoutError:
            picture(page, "demo-failed")
            raise
        seen = output.inner_text()
        picture(page, "demo-lab")
        record(page)
        assert "10Gi" in seen
        assert "gpu" in seen

        # The warm claim was handed over, and the page of the service, linked in the hub's menu, shows it.
        (claim,) = demo.object("pods", "jupyter-admin")["spec"]["resourceClaims"]
        assert claim["resourceClaimName"].startswith("placeholder-")
        # The scheduler itself may be the first to let the server have the claim.
        eventually_sync(lambda: "Scheduled" in reasons_on(demo, "jupyter-admin"), "an event on the server's pod")
        eventually_sync(lambda: "PlaceholderHandedOver" in reasons_on(demo), "an event on the placeholder")
        page.goto(f"{demo.address}/hub/home")
        page.get_by_role("button", name="Services").or_(page.get_by_text("Services", exact=True)).first.click()
        page.get_by_role("link", name="dra-spawner", exact=True).click()
        page.wait_for_url("**/services/dra-spawner/")
        page.get_by_role("heading", name="What is wrong").wait_for()
        record(page)
        page.get_by_role("link", name="Nodes", exact=True).click()
        page.locator(".device[aria-label*=admin]").first.wait_for()
        picture(page, "demo-service")
        record(page)
        page.goto(f"{demo.address}/hub/home")
        page.get_by_text(re.compile("Your server has 10 GiB of gpu-. on shared-gpus, already prepared")).wait_for()
        record(page)
        page.click("#stop")
        page.locator("#stop").wait_for(state="hidden")
        eventually_sync(lambda: (demo.api("/users/admin") or {}).get("servers") == {}, "the server is stopped")
        assert processes_in(demo.directory), "hub, proxy and pods are looked for the right way"
    finally:
        code = stop_demo(demo)
    assert code == 0
    wait_until_none_is_left(demo)


async def test_an_existing_cluster_is_used_instead(real_cluster):
    """Its classes become profiles, its pods are in its namespace; nothing is published there."""
    cluster = real_cluster
    await cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0")))
    options = ("--kubeconfig", str(cluster.admin_kubeconfig), "--namespace", cluster.namespace)
    demo = await asyncio.to_thread(start_demo, *options)
    try:
        answer = await asyncio.to_thread(demo.api, "/users/admin/server", {"profile": "gpu-share-example-com"})
        assert answer is None
        pod = await cluster.wait_for(cluster.path("pods", "jupyter-admin"))
        assert [claim["name"] for claim in pod["spec"]["resourceClaims"]] == ["device"]
        nodes = await cluster.admin.list("/api/v1/nodes")
        assert [node["metadata"]["name"] for node in nodes["items"]] == ["node-a"]
    finally:
        assert await asyncio.to_thread(stop_demo, demo) == 0
    for plural in ("pods", "resourceclaims", "resourceclaimtemplates"):
        await cluster.wait_gone(cluster.path(plural))


def wait_until_none_is_left(demo: Demo) -> None:
    def left() -> list[str]:
        return processes_in(demo.directory)

    eventually_sync(lambda: not left(), "all processes end", shows=left, pause_seconds=0.05)
    assert not demo.directory.exists()


linux = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")


@linux
def test_closing_the_terminal_stops_everything():
    demo = start_demo()
    assert processes_in(demo.directory)
    demo.process.send_signal(signal.SIGHUP)
    assert demo.process.wait(timeout=PATIENCE_SECONDS) == 0
    wait_until_none_is_left(demo)


@linux
def test_a_hub_that_is_killed_takes_its_proxy_along_and_the_demo_fails():
    demo = start_demo()
    proxy = int((demo.directory / "proxy.pid").read_text())
    hub = int(Path(f"/proc/{proxy}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(hub, signal.SIGKILL)
    assert demo.process.wait(timeout=PATIENCE_SECONDS) == 1
    wait_until_none_is_left(demo)
    assert "JupyterHub ended by itself with exit code -9." in demo.output()


@linux
@pytest.mark.parametrize("after", ["", "Starting the embedded cluster", "Starting JupyterHub"], ids=repr)
def test_ctrl_c_during_the_start_ends_it_quietly(after):
    process = run_demo()
    assert process.stdout is not None
    seen = []
    if after:
        for line in process.stdout:
            seen.append(line)
            if after in line:
                break
    else:
        wait_until_it_imports(process.pid)
    process.send_signal(signal.SIGINT)
    seen += process.communicate(timeout=PATIENCE_SECONDS)[0].splitlines()
    # The demo handles Ctrl-C from the moment on in which it says its first words.
    assert process.returncode == (0 if any("Starting" in line for line in seen) else 130)
    assert not [line for line in seen if "Traceback" in line or "Open  " in line or "Error" in line]


def wait_until_it_imports(pid: int) -> None:
    """Until the demo has begun to load its libraries, of which this is the first."""
    maps = Path(f"/proc/{pid}/maps")
    eventually_sync(
        lambda: "/aiohttp/" in maps.read_text(), "it imports aiohttp", shows=maps.read_text, pause_seconds=0.002
    )


def test_a_port_in_use_is_reported_in_a_sentence():
    command = Path(sys.executable).with_name("dra-spawner")
    with socket.socket() as in_use:
        in_use.bind(("127.0.0.1", 0))
        in_use.listen()
        port = in_use.getsockname()[1]
        done = subprocess.run(
            [command, "demo", "--port", str(port), "--no-browser"],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    assert done.returncode == 1
    assert f"Port {port} cannot be used" in done.stderr
    assert "--port 0" in done.stderr


def test_a_missing_kubeconfig_is_reported_in_a_sentence(tmp_path):
    command = Path(sys.executable).with_name("dra-spawner")
    missing = tmp_path / "none"
    done = subprocess.run(
        [command, "demo", "--kubeconfig", str(missing)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, f"dra-spawner demo: There is no kubeconfig file {missing}.\n")
