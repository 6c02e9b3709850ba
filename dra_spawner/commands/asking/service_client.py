"""Requests to the API of a running service, with a token of the hub."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

from dra_spawner import names

URL_VARIABLE: Final = "DRA_SPAWNER_URL"
TOKEN_VARIABLES: Final = ("DRA_SPAWNER_TOKEN", "JUPYTERHUB_API_TOKEN")
_MAX_BYTES: Final = 32 * 2**20
_SECONDS: Final = 30.0


class NotAnswered(Exception):
    """Raised where the service cannot be asked; the message is a sentence for the terminal."""


class Refused(NotAnswered):
    """Raised where the service has answered that it does not do what is asked."""


def printable(value: object) -> str:
    """A text of the service in one line, without characters that change a terminal."""
    return "".join(each if each.isprintable() else "\ufffd" for each in str(value))


def client_of(url: str, token_file: str, environment: Mapping[str, str]) -> ServiceClient:
    """The client by options and environment; a token is no option, as other users of a machine see them.

    Raises
    ------
    NotAnswered
        If address or token are missing or wrong.
    """
    url = url or environment.get(URL_VARIABLE, "")
    if not url:
        raise NotAnswered(
            f"The address of the hub is not set: --url or {URL_VARIABLE}, such as https://hub.example.org/."
        )
    if token_file:
        try:
            token = Path(token_file).read_text().strip()
        except (OSError, ValueError) as error:
            raise NotAnswered(f"The token cannot be read: {error}.") from None
    else:
        token = next((environment[each] for each in TOKEN_VARIABLES if environment.get(each)), "")
    if not token:
        raise NotAnswered(
            f"There is no token: --token-file or {TOKEN_VARIABLES[0]}. The hub's page Token makes one; it needs the "
            "scope access:services."
        )
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise NotAnswered("The token has characters that no token has.")
    return ServiceClient(url, token)


class ServiceClient:
    """Asks one service.

    Parameters
    ----------
    url
        Of the service's pages, or of the hub, whose service has the usual name.

    Raises
    ------
    NotAnswered
        If it is no address.
    """

    def __init__(self, url: str, token: str, seconds: float = _SECONDS) -> None:
        try:
            parts = urlsplit(url if "://" in url else f"https://{url}")
            host, self._port = parts.hostname or "", parts.port
            host.encode("idna")  # as sockets do, which raise no OSError for a wrong name
            path = quote(parts.path, safe="/%:@!$&'()*+,;=~").rstrip("/").removesuffix("/hub")
        except ValueError:
            host = ""
        if not host or parts.scheme not in ("http", "https"):
            raise NotAnswered(f"{printable(url)} is no address such as https://hub.example.org/.")
        self._host, self._is_secure = host, parts.scheme == "https"
        self._path = path if "/services/" in path else f"{path}/services/{names.PROJECT}"
        self._token = token
        self._seconds = seconds

    def get(self, path: str) -> Any:
        """The JSON of an address of the API.

        Raises
        ------
        NotAnswered
        """
        return self.send("GET", path)

    def items(self, path: str) -> list[dict[str, Any]]:
        """The items of a list of the API."""
        found = self.get(path)
        items = found.get("items") if isinstance(found, dict) else None
        if not isinstance(items, list) or not all(isinstance(each, dict) for each in items):
            raise NotAnswered(f"The answer of {path} is no list of the API.")
        return items

    def send(self, method: str, path: str, body: object = None) -> Any:
        """Send a request; the JSON that answers it, or None.

        Raises
        ------
        NotAnswered
        """
        # Neither redirects nor proxies are followed: the token is for the hub alone.
        kind = HTTPSConnection if self._is_secure else HTTPConnection
        connection = kind(self._host, self._port, timeout=self._seconds)
        headers = {"Authorization": f"token {self._token}", "Accept": "application/json"}
        data = None if body is None else json.dumps(body)
        try:
            connection.request(method, f"{self._path}/{path}", body=data, headers=headers)
            response = connection.getresponse()
            return self._read(response.status, response.read(_MAX_BYTES))
        except TimeoutError:
            raise NotAnswered(f"{self._host} has not answered within {self._seconds:g} s.") from None
        except ssl.SSLCertVerificationError as error:
            raise NotAnswered(
                f"The certificate of {self._host} is not trusted ({error.verify_message}); SSL_CERT_FILE names another "
                "file of authorities."
            ) from None
        except (OSError, HTTPException) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise NotAnswered(f"{self._host} cannot be asked: {printable(reason)}.") from None
        finally:
            connection.close()

    def _read(self, status: int, content: bytes) -> Any:
        try:
            answer = json.loads(content) if content else None
        except (ValueError, RecursionError):
            answer = None
            if status < 300:
                raise NotAnswered(f"{self._host}{self._path} is not the service: its answer is no JSON.") from None
        detail = printable(answer.get("detail", "")) if isinstance(answer, dict) else ""
        if status < 300:
            return answer
        if status in (301, 302, 303, 307, 308) or (status == 404 and not detail):
            raise NotAnswered(f"There is no service at {self._host}{self._path} (status {status}).")
        raise Refused(detail or f"The service answers with status {status}.")
