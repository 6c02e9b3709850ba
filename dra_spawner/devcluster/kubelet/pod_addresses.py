"""Addresses of pods that share one machine."""

from __future__ import annotations

import random
import re
import sys
from ipaddress import IPv4Address
from typing import Protocol

_WILDCARD = re.compile(r"(?<![\w.:])(?:0\.0\.0\.0|\[::\])(?![\w.])")


class PodAddresses(Protocol):
    """Gives addresses to pods."""

    def acquire(self) -> str: ...

    def release(self, address: str) -> None: ...


class LoopbackAddresses:
    """Addresses of 127.0.0.0/8, one for each pod, on Linux, where all are the machine's own; else 127.0.0.1 for all.

    The first address is random, so that two clusters on one machine hardly ever collide.
    """

    _FIRST = int(IPv4Address("127.1.0.1"))
    _COUNT = int(IPv4Address("127.255.255.0")) - _FIRST

    def __init__(self, *, start: int | None = None) -> None:
        self._unique = sys.platform == "linux"
        self._next = random.randrange(self._COUNT) if start is None else start  # noqa: S311 - no secret
        self._taken: set[str] = set()

    def acquire(self) -> str:
        if not self._unique:
            return "127.0.0.1"
        while True:
            address = str(IPv4Address(self._FIRST + self._next % self._COUNT))
            self._next += 1
            if address not in self._taken and not address.endswith((".0", ".255")):
                self._taken.add(address)
                return address

    def release(self, address: str) -> None:
        self._taken.discard(address)


def bind_to(address: str, text: str) -> str:
    """`text` with the wildcard addresses 0.0.0.0 and [::] replaced.

    In a pod's own network a server may listen on all addresses; here these include the addresses of other pods and of
    the machine.
    """
    return _WILDCARD.sub(address, text)
