"""Asks the hub, with the server's own token, such as for its devices. It answers in time, or not at all."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Final
from urllib.parse import urlsplit

from dra_spawner.user_server.shown_devices import InvalidAnswer, ShownDevices, read_answer, text

_DEVICES: Final = "dra-spawner/devices"
#: The hub itself waits up to 3 s for the cluster.
_LIMIT_SECONDS: Final = 5.0
_MAX_BYTES: Final = 2**20


class NotKnown(Exception):
    """Raised if the hub's answer is not known; the message is a sentence for the user.

    Attributes
    ----------
    status
        The hub's status; 0 without one.
    message
        The hub's own sentence; empty without one.
    """

    def __init__(self, sentence: str, status: int = 0, message: str = "") -> None:
        super().__init__(sentence)
        self.status = status
        self.message = message


@dataclass(frozen=True, slots=True)
class _Answered:
    json: object


def ask_hub(environment: Mapping[str, str], limit_seconds: float = _LIMIT_SECONDS) -> ShownDevices:
    """Return the hub's answer about this server's devices.

    Parameters
    ----------
    environment
        Variables that JupyterHub sets in each server.

    Raises
    ------
    NotKnown
        Without a valid answer in time.
    """
    answer = hub_json(environment, _DEVICES, limit_seconds=limit_seconds)
    try:
        return read_answer(answer)
    except InvalidAnswer as error:
        raise NotKnown(f"The hub's answer is not understood: {error}.") from None


def hub_json(
    environment: Mapping[str, str], address: str, body: object = None, *, limit_seconds: float = _LIMIT_SECONDS
) -> object:
    """Return the JSON of the hub's answer; None where it is none.

    Parameters
    ----------
    address
        Below the hub's prefix.
    body
        JSON to post; None for a question.

    Raises
    ------
    NotKnown
        Without an answer in time, or with a refusal; `NotKnown.status` is the hub's status, or 0.
    """
    url, token = environment.get("JUPYTERHUB_API_URL", ""), environment.get("JUPYTERHUB_API_TOKEN", "")
    if not url or not token:
        raise NotKnown("This is no server of JupyterHub: JUPYTERHUB_API_URL and JUPYTERHUB_API_TOKEN are not set.")
    answers: SimpleQueue[_Answered | NotKnown] = SimpleQueue()

    def ask() -> None:
        try:
            answers.put(_Answered(_ask(url, token, environment, address, body, limit_seconds)))
        except NotKnown as unknown:
            answers.put(unknown)
        except TimeoutError:
            answers.put(_too_late(limit_seconds))
        except (OSError, HTTPException, ValueError) as error:
            reason = text(getattr(error, "strerror", None) or str(error)) or type(error).__name__
            answers.put(NotKnown(f"The hub cannot be asked: {reason}."))

    # In a thread, as a hub that sends one byte after the other is in time each time.
    Thread(target=ask, daemon=True).start()
    try:
        answer = answers.get(timeout=limit_seconds)
    except Empty:
        answer = _too_late(limit_seconds)
    if isinstance(answer, NotKnown):
        raise answer
    return answer.json


def _too_late(limit_seconds: float) -> NotKnown:
    return NotKnown(f"The hub has not answered within {limit_seconds:g} s.")


def _ask(
    url: str, token: str, environment: Mapping[str, str], address: str, body: object, limit_seconds: float
) -> object:
    parts = urlsplit(url)
    prefix = parts.path.rstrip("/").removesuffix("api")
    if parts.hostname is None or parts.scheme not in ("http", "https"):
        raise NotKnown(f"JUPYTERHUB_API_URL is no address: {text(url)}")
    # Neither redirects nor proxies are followed: the token is for the hub alone.
    connection = (
        HTTPSConnection(parts.hostname, parts.port, timeout=limit_seconds, context=_tls(environment))
        if parts.scheme == "https"
        else HTTPConnection(parts.hostname, parts.port, timeout=limit_seconds)
    )
    try:
        headers = {"Authorization": f"token {token}", "Accept": "application/json"}
        if body is None:
            connection.request("GET", prefix + address, headers=headers)
        else:
            headers["Content-Type"] = "application/json"
            connection.request("POST", prefix + address, body=json.dumps(body), headers=headers)
        response = connection.getresponse()
        return _read(response.status, response.read(_MAX_BYTES))
    finally:
        connection.close()


def _tls(environment: Mapping[str, str]) -> ssl.SSLContext:
    """As JupyterHub's ``internal_ssl`` sets it up."""
    context = ssl.create_default_context(cafile=environment.get("JUPYTERHUB_SSL_CLIENT_CA") or None)
    if certificate := environment.get("JUPYTERHUB_SSL_CERTFILE"):
        context.load_cert_chain(certificate, environment.get("JUPYTERHUB_SSL_KEYFILE") or None)
    return context


def _read(status: int, body: bytes) -> object:
    if status == 404:
        raise NotKnown("The hub does not tell servers their devices: it has no dra-spawner, or an older one.", status)
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        answer = None
    if status != 200:
        message = text(answer.get("message")) if isinstance(answer, dict) else ""
        raise NotKnown(message or f"The hub answers {status}.", status, message)
    return answer
