"""The hub is answered while the service is still being imported."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from dra_spawner.service.start_answer import StartAnswer
from tests.all_of_them import all_of_them
from tests.polling import PATIENCE_SECONDS, eventually_sync
from tests.ports import free_port
from tests.slow_service import slow_service

PREFIX = "/services/dra-spawner/"


def environment(port: int) -> dict[str, str]:
    return {"JUPYTERHUB_SERVICE_URL": f"http://127.0.0.1:{port}", "JUPYTERHUB_SERVICE_PREFIX": PREFIX}


def ask(port: int, path: str = PREFIX, method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=240)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@contextmanager
def answering() -> Iterator[tuple[StartAnswer, int]]:
    port = free_port()
    answer = StartAnswer.from_environment(environment(port))
    assert answer is not None
    try:
        yield answer, port
    finally:
        for each in answer.hand_over(port, "127.0.0.1"):
            each.close()


def test_the_hub_is_answered_and_other_callers_must_wait() -> None:
    with answering() as (_, port):
        assert ask(port) == (200, "The service is starting. Please reload this page in a few seconds.\n")
        assert ask(port, PREFIX.rstrip("/"))[0] == ask(port, method="HEAD")[0] == 200
        for path in ("/", f"{PREFIX}readyz", f"{PREFIX}healthz", f"{PREFIX}api/nodes", f"{PREFIX}?x=1"):
            assert ask(port, path)[0] == 503
        assert ask(port, method="POST")[0] == 503


def test_clients_that_say_nothing_or_nonsense_hold_nobody_up_for_long() -> None:
    with (
        answering() as (_, port),
        socket.create_connection(("127.0.0.1", port)),
        socket.create_connection(("127.0.0.1", port)) as nonsense,
    ):
        nonsense.sendall(b"\0" * 100_000)
        assert ask(port)[0] == 200


def test_the_sockets_are_handed_over_without_a_gap() -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with answering() as (answer, port):
        (handed_over,) = answer.hand_over(port, "127.0.0.1")
        # It waits in the socket until the service takes it.
        waiting = http.client.HTTPConnection("127.0.0.1", port, timeout=240)
        waiting.request("GET", PREFIX)
        server = HTTPServer(("127.0.0.1", port), Handler, bind_and_activate=False)
        server.socket.close()
        server.socket = handed_over
        handed_over.setblocking(True)
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        assert waiting.getresponse().status == 204
        waiting.close()
        thread.join()


def test_a_service_that_listens_elsewhere_leaves_the_port() -> None:
    port = free_port()
    answer = StartAnswer.from_environment(environment(port))
    assert answer is not None
    assert answer.hand_over(port + 1, "127.0.0.1") == []
    with pytest.raises(ConnectionRefusedError):
        ask(port)


@all_of_them("given", [
    {},
    {"JUPYTERHUB_SERVICE_URL": "http://127.0.0.1:8181"},
    {"JUPYTERHUB_SERVICE_PREFIX": PREFIX},
    {"JUPYTERHUB_SERVICE_URL": "http://127.0.0.1:x", "JUPYTERHUB_SERVICE_PREFIX": PREFIX},
    {"JUPYTERHUB_SERVICE_URL": "nonsense", "JUPYTERHUB_SERVICE_PREFIX": PREFIX},
])  # fmt: skip
def test_without_a_hub_nothing_listens(given: dict[str, str]) -> None:
    assert StartAnswer.from_environment(given) is None


def test_a_port_that_is_taken_is_the_services_to_report() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert StartAnswer.from_environment(environment(taken.getsockname()[1])) is None


def test_a_whole_service_answers_before_it_is_imported(tmp_path: Path) -> None:
    port, may_import = free_port(), tmp_path / "may import"
    given = {**os.environ, **environment(port), "JUPYTERHUB_API_TOKEN": "", "KUBECONFIG": "/nowhere"}
    with subprocess.Popen(slow_service(may_import), env=given, stderr=subprocess.DEVNULL) as process:
        try:
            found: list[tuple[int, str]] = []

            def answers(path: str = PREFIX) -> bool:
                try:
                    found.append(ask(port, path))
                except OSError:
                    return False
                return True

            eventually_sync(answers, "an answer")
            assert found[0][0] == 200
            assert "starting" in found[0][1]
            may_import.touch()
            eventually_sync(lambda: answers(f"{PREFIX}healthz") and found[-1][0] == 200, "healthz")
        finally:
            process.terminate()
        assert process.wait(PATIENCE_SECONDS) == 0
