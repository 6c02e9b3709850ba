"""A DRA driver of a real node: it publishes devices, and prepares slowly, wrongly or not at all on demand."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.polling import PATIENCE_SECONDS, eventually_sync

from .devices import Pools

_POLL_SECONDS = 0.02

#: Seconds, or the least and the most of a random time.
Seconds = float | tuple[float, float]


@dataclass(frozen=True, slots=True)
class DriverCall:
    """One request of the kubelet about one claim; times as of `time.time`."""

    method: str
    """``prepare`` or ``unprepare``."""
    claim: str
    """``namespace/name``."""
    uid: str
    began: float
    ended: float
    """0 while it goes on."""
    error: str


@dataclass(frozen=True, slots=True)
class DriverState:
    registered: bool
    """Whether the kubelet knows the driver."""
    prepared: list[str]
    """UIDs of claims."""
    calls: list[DriverCall]
    """Since the driver's start, and since `DriverClient.forget_calls`."""


@dataclass(slots=True)
class _Settings:
    """As ``harness/driver/control.go`` reads them."""

    resources: dict[str, Any] = field(default_factory=dict)
    prepareSeconds: tuple[float, float] = (0, 0)  # noqa: N815
    unprepareSeconds: tuple[float, float] = (0, 0)  # noqa: N815
    prepareErrors: dict[str, str] = field(default_factory=dict)  # noqa: N815
    unprepareError: str = ""  # noqa: N815
    unhealthy: dict[str, str] = field(default_factory=dict)
    preparesFor: str = ""  # noqa: N815


@dataclass(eq=False)
class DriverClient:
    """Controls one driver; its settings outlive the driver's process. Devices are named ``pool/device``."""

    name: str
    """Of the driver."""
    pools: Pools
    """What it publishes."""
    settings_path: Path
    find_socket: Callable[[], Path]
    """Finds where the driver listens."""
    prepares_for: str = "claim"
    """Whom a prepared claim serves: ``claim``, ``container`` or ``pod``, as ``harness/driver/control.go`` says."""
    _since: float = 0.0

    def __post_init__(self) -> None:
        self._settings = self._quick()
        self._write()

    def slow(self, *, prepare: Seconds | None = None, unprepare: Seconds | None = None) -> None:
        """Let preparations or their opposite take a time; an omitted one stays as it was."""
        if prepare is not None:
            self._settings.prepareSeconds = _range(prepare)
        if unprepare is not None:
            self._settings.unprepareSeconds = _range(unprepare)
        self._apply()

    def fail(self, *, prepare: str | Mapping[str, str] | None = None, unprepare: str | None = None) -> None:
        """Let preparations fail, all with one message or by device, or their opposite; "" ends it."""
        if prepare is not None:
            errors = {"*": prepare} if isinstance(prepare, str) else dict(prepare)
            self._settings.prepareErrors = {device: message for device, message in errors.items() if message}
        if unprepare is not None:
            self._settings.unprepareError = unprepare
        self._apply()

    def unhealthy(self, devices: Mapping[str, str]) -> None:
        """Report these devices as unhealthy, each with a message, and all others as healthy."""
        self._settings.unhealthy = dict(devices)
        self._apply()

    def withdraw(self) -> None:
        """Publish nothing any more."""
        self.publish({})

    def publish(self, pools: Pools | None = None) -> None:
        """Publish `pools` instead, or again the first pools."""
        self._settings.resources = _resources(self.pools if pools is None else pools)
        self._apply()

    def reset(self) -> None:
        """Be a quick and healthy driver again, with all devices."""
        self._settings = self._quick()
        self._apply()

    def forget_calls(self) -> None:
        """Forget calls that began before now."""
        self._since = time.time()

    def state(self) -> DriverState:
        state = self._ask("state")["state"]
        calls = [DriverCall(**call) for call in state["calls"]]
        return DriverState(
            state["registered"], state["prepared"], [call for call in calls if call.began >= self._since]
        )

    def calls(self, method: str = "", claim: str = "") -> list[DriverCall]:
        """Calls of the kubelet, by method and claim (``namespace/name``) if they are named."""
        return [call for call in self.state().calls if method in ("", call.method) and claim in ("", call.claim)]

    def wait_call(
        self, method: str, claim: str = "", *, ended: bool = False, timeout_seconds: float = PATIENCE_SECONDS
    ) -> DriverCall:
        """Wait until the kubelet asks for it, or has its answer; the last of these calls."""

        def calls() -> list[DriverCall]:
            return [call for call in self.calls(method, claim) if call.ended or not ended]

        what = f"{method} of {claim or 'any claim'}"
        return eventually_sync(calls, what, timeout_seconds, shows=self.state, pause_seconds=_POLL_SECONDS)[-1]

    def wait_registered(self, alive: Callable[[], None] = lambda: None) -> None:
        """Wait until the driver runs and the kubelet knows it."""
        last: DriverState | Exception | None = None

        def is_registered() -> bool:
            nonlocal last
            alive()
            try:
                last = self.state()
            except (OSError, json.JSONDecodeError) as error:
                last = error
                return False
            return last.registered

        what = f"the kubelet registers {self.name}"
        eventually_sync(is_registered, what, PATIENCE_SECONDS, shows=lambda: last, pause_seconds=_POLL_SECONDS)

    def _quick(self) -> _Settings:
        return _Settings(resources=_resources(self.pools), preparesFor=self.prepares_for)

    def _apply(self) -> None:
        self._write()
        # A driver that is not running reads them when it starts.
        if self.find_socket().exists():
            try:
                self._ask("reload")
            except ConnectionRefusedError:
                return

    def _write(self) -> None:
        unfinished = self.settings_path.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(asdict(self._settings)))
        unfinished.rename(self.settings_path)

    def _ask(self, operation: str) -> dict[str, Any]:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(PATIENCE_SECONDS)
            connection.connect(str(self.find_socket()))
            connection.sendall(json.dumps(operation).encode())
            connection.shutdown(socket.SHUT_WR)
            with connection.makefile() as file:
                answer: dict[str, Any] = json.loads(file.read())
        assert "error" not in answer, answer["error"]
        return answer


def _resources(pools: Pools) -> dict[str, Any]:
    return {"pools": {name: {"slices": slices} for name, slices in pools.items()}}


def _range(seconds: Seconds) -> tuple[float, float]:
    return seconds if isinstance(seconds, tuple) else (seconds, seconds)
