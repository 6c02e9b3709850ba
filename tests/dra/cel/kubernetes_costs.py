"""Kubernetes' own verdicts and costs of selectors: ``python -m tests.dra.cel.kubernetes_costs`` records them.

The recorded ones are of `RELEASE`; the estimates of later releases differ for some texts and lists.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from dra_spawner.dra.cel import CelDevice
from dra_spawner.dra.quantity import Quantity
from dra_spawner.dra.scheduler_rules import Release
from tests.dra.cel.expensive_selectors import ExpensiveSelectors

__all__ = ["DEVICE", "EXCUSES", "RELEASE", "expensive_selectors", "kubernetes", "recorded_answers"]

RELEASE: Final[Release] = (1, 36)
_RECORDED: Final = Path(__file__).parent / "recorded" / "expensive.jsonl"
_SEEDS: Final = (1, 2)
#: The API server takes ``includes()`` only where the feature is on, the scheduler always; and cel-go crashes on some lists
#: that were made by ``flatten()`` and then concatenated.
EXCUSES: Final = ("'includes'", "internal error: runtime error")
_ATTRIBUTES: Final[dict[str, dict[str, Any]]] = {
    "product": {"string": "A100"},
    "index": {"int": 7},
    "mig": {"bool": False},
    "uuid": {"string": "gpu-0"},
    "cuda": {"version": "12.4.0"},
    "other.example.com/product": {"string": "é"},
}
DEVICE: Final = CelDevice.from_device(
    "gpu.example.com", _ATTRIBUTES, {"memory": Quantity.parse("40Gi")}, allow_multiple_allocations=True
)
_GO_DEVICE: Final = {
    "driver": "gpu.example.com",
    "allowMultipleAllocations": True,
    "attributes": _ATTRIBUTES,
    "capacity": {"memory": {"value": "40Gi"}},
}


def kubernetes(oracle: Path, expressions: list[str]) -> list[dict[str, Any]]:
    """Results of the API server and the scheduler for each."""
    question = {
        "name": "selectors",
        "features": {"ConsumableCapacity": True},
        "expressions": expressions,
        "device": _GO_DEVICE,
    }
    done = subprocess.run(
        [oracle], input=json.dumps(question) + "\n", capture_output=True, text=True, timeout=240, check=True
    )
    verdicts = json.loads(done.stdout)["selectors"]
    assert len(verdicts) == len(expressions)
    return list(verdicts)


def expensive_selectors() -> list[str]:
    """The expressions of which the answers are recorded."""
    found = []
    for seed in _SEEDS:
        selectors = ExpensiveSelectors(seed)
        found += [selectors.selector(1 + index % 4) for index in range(200)]
    return found


def recorded_answers() -> list[dict[str, Any]]:
    """The results of `RELEASE` for `expensive_selectors`."""
    return [json.loads(line) for line in _RECORDED.read_text(encoding="utf-8").splitlines()]


def main() -> int:
    """Record the answers anew."""
    from tests.oracle.binary import oracle_binary

    answers = kubernetes(oracle_binary(RELEASE), expensive_selectors())
    with _RECORDED.open("w", encoding="utf-8") as file:
        for answer in answers:
            kept: dict[str, Any] = {key: answer[key] for key in ("outcome", "estimate", "cost") if key in answer}
            if excuse := next((each for each in EXCUSES if each in answer.get("error", "")), None):
                kept["error"] = excuse
            file.write(json.dumps(kept) + "\n")
    print(f"recorded {len(answers)} answers of {'.'.join(map(str, RELEASE))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
