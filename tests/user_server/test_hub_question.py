"""The hub's answer, and a sentence for each failure, in time."""

from __future__ import annotations

import threading
import time

import pytest

from dra_spawner.user_server.hub_question import NotKnown, ask_hub
from dra_spawner.user_server.shown_devices import read_answer
from tests.polling import PATIENCE_SECONDS
from tests.ports import free_port
from tests.user_server.hub_stand_in import ANSWER, hub_that, json_answer


def test_devices():
    with hub_that(json_answer(ANSWER)) as environment:
        found = ask_hub(environment, PATIENCE_SECONDS)
    gpu, nic = found.devices
    assert (gpu.share[0].text, gpu.enforced_by, gpu.is_faulty) == ("10 GiB of 40 GiB", "none", False)
    assert nic.is_faulty
    assert nic.network is not None
    assert nic.network.addresses == ("10.42.0.7/24",)


@pytest.mark.parametrize(
    ("respond", "sentence"),
    [
        pytest.param(json_answer({"message": "<html>"}, 404), "has no dra-spawner, or an older one", id="an older hub"),
        pytest.param(json_answer({**ANSWER, "version": 2}), "another version of dra-spawner", id="a newer hub"),
        pytest.param(json_answer({"message": "This\n\x1b[2Jis not."}, 503), "This [2Jis not.", id="refused"),
        pytest.param(json_answer(b"<html>", 502), "The hub answers 502.", id="a proxy's page"),
        pytest.param(json_answer(b"<html>"), "it is no object", id="no JSON"),
        pytest.param(json_answer({"version": 1}), "it has no list of devices", id="no devices"),
        pytest.param(json_answer(b"[" * 100_000), "it is no object", id="deep"),
        pytest.param(json_answer({}, 302), "The hub answers 302.", id="a redirect"),
    ],
)
def test_each_failure_has_a_sentence(respond, sentence):
    with hub_that(respond) as environment, pytest.raises(NotKnown) as unknown:
        ask_hub(environment, PATIENCE_SECONDS)
    assert sentence in str(unknown.value)


def test_nonsense_in_an_answer_is_left_out():
    devices: list[object] = [
        {"name": 3, "share": "x", "network": {"addresses": [1]}, "health": [], "enforcement": None},
        "x",
        None,
    ]
    with hub_that(json_answer({**ANSWER, "devices": devices, "node": "a\nb", "warm": "yes"})) as environment:
        found = ask_hub(environment, PATIENCE_SECONDS)
    numbers: list[object] = ["soon", -1, 1.5, True, float("inf"), 10**30, None, []]
    for wrong in numbers:
        read = read_answer({**ANSWER, "ends_in_seconds": wrong, "ends_soon": "yes"})
        assert (read.ends_in_seconds, read.ends_soon) == (None, False), wrong
    (device,) = found.devices
    assert (device.name, device.share, device.health, found.node, found.warm) == ("", (), "unknown", "a b", None)


@pytest.mark.parametrize(
    "environment",
    [
        pytest.param({}, id="no variables"),
        pytest.param({"JUPYTERHUB_API_URL": "http://127.0.0.1/hub/api"}, id="no token"),
    ],
)
def test_elsewhere_than_in_a_server(environment):
    with pytest.raises(NotKnown, match="This is no server of JupyterHub"):
        ask_hub(environment, PATIENCE_SECONDS)


@pytest.mark.parametrize("url", ["nonsense", "ftp://hub/api", "http://[::1/hub/api", "http://127.0.0.1:99999999/api"])
def test_an_address_that_is_none(url):
    with pytest.raises(NotKnown):
        ask_hub({"JUPYTERHUB_API_URL": url, "JUPYTERHUB_API_TOKEN": "t"}, PATIENCE_SECONDS)


def test_a_hub_that_is_away():
    url = f"http://127.0.0.1:{free_port()}/hub/api"
    with pytest.raises(NotKnown, match=r"The hub cannot be asked: .*refused"):
        ask_hub({"JUPYTERHUB_API_URL": url, "JUPYTERHUB_API_TOKEN": "t"}, PATIENCE_SECONDS)


def test_a_hub_that_answers_byte_by_byte_is_too_late():
    ended = threading.Event()

    def trickle(handler):
        handler.send_response(200)
        handler.end_headers()
        while not ended.wait(0.02):
            handler.wfile.write(b" ")

    with hub_that(trickle) as environment:
        began = time.monotonic()
        with pytest.raises(NotKnown, match=r"not answered within 0\.2 s"):
            ask_hub(environment, limit_seconds=0.2)
        assert time.monotonic() - began < 20
        ended.set()
