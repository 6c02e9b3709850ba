"""Amounts and policies of capacities at the edge of what the API takes, and a little beyond."""

from __future__ import annotations

import random
from typing import Any, Final

from dra_spawner.dra.quantity import int64_scale

__all__ = ["odd_amount", "odd_counter", "odd_policy"]

Json = dict[str, Any]

_AMOUNTS: Final = (
    *("0", "1n", "1u", "1m", "999m", "0.5", "1500m", "2.000000001", "0.0000000001", "1e-3", "15e-1"),
    *("1", "2", "3", "7", "10", "1e1", "1E1", "12", "1k", "1Ki", "1000", "1023", "1024", "1025", "0.1Gi", "1.5Gi"),
    *("1e3", "1M", "1e6", "1048576", "10Gi", "10737418240", "10737418241", "10e9", "24Gi", "40Gi", "1G"),
    *("4611686018427387904", "7Ei", "9223372036854775807", "9223372036854775806.5", "9223372036854775808", "8Ei"),
    *("9E", "10E", "1e19", "123456789.123456789", "4611686018427387904.000000001"),
)
_POINTERLESS: Final = tuple(amount for amount in _AMOUNTS if int64_scale(amount) is not None)
_SMALL: Final = ("0", "1m", "500m", "1", "1500m", "2", "3", "1u", "0.1", "1e0", "1Ki", "1k")


def odd_amount(rng: random.Random) -> str:
    """An amount whose text or size is unusual."""
    return rng.choice(_AMOUNTS)


def odd_counter(rng: random.Random) -> str:
    """Such an amount of a counter.

    Go keeps other numbers behind a pointer. kube-scheduler up to 1.37 adds counters up behind the pointer of the first
    device that consumes them, so what that device consumes then depends on what was asked before.
    """
    return rng.choice(_POINTERLESS)


def odd_policy(rng: random.Random, value: str) -> Json:
    """A policy that may not go with the capacity's value, or with itself."""
    amounts = (value, value, "0", *rng.sample(_AMOUNTS, 2), *rng.sample(_SMALL, 3))
    policy: Json = {"default": rng.choice(amounts)}
    if rng.random() < 0.1:
        del policy["default"]
    match rng.randint(0, 5):
        case 0:
            pass
        case 1:
            # Not sorted, some of them twice.
            policy["validValues"] = rng.sample(amounts, rng.randint(1, 5))
        case _:
            valid: Json = {"min": rng.choice(("0", "1", *rng.sample(_SMALL, 2)))}
            if rng.random() < 0.8:
                step = rng.choice(("1", "2", "3", rng.choice(_SMALL), rng.choice(_AMOUNTS)))
                valid["step"] = step if step not in ("0", "0.0000000001") else "1"
            if rng.random() < 0.5:
                valid["max"] = rng.choice(amounts)
            policy["validRange"] = valid
    return policy
