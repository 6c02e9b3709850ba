"""Runs Prometheus' own tool on the rules of the chart."""

from __future__ import annotations

import subprocess
from pathlib import Path

__all__ = ["RULES", "promtool"]

RULES = Path(__file__).parents[1] / "helm-values" / "chart" / "files" / "rules.yaml"


def promtool(*arguments: str, text: str = "") -> None:
    """Run ``promtool``, which must succeed."""
    done = subprocess.run(["promtool", *arguments], input=text, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
