"""The answers of ``dra-spawner fit`` are the recorded ones of kube-scheduler's allocator."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SHARED = Path(__file__).parents[3].parent / "shared"
CHECK = SHARED / "checks" / "fit_parity.py"
SAMPLES = SHARED / "data" / "allocator-samples.jsonl.gz"


def test_recorded_verdicts():
    if not (CHECK.exists() and SAMPLES.exists()):
        pytest.skip("the recorded samples are not beside this repository, in ../shared")
    command = Path(sys.executable).with_name("dra-spawner")
    done = subprocess.run([sys.executable, CHECK, command, SAMPLES], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("0 of 171 verdicts differ")
