"""Takes the pictures of the documentation anew: ``python -m tests.browser.docs_pictures``.

The browser tests click through demo and JupyterLab, and take pictures on their way. Those that a page of ``docs`` shows
are put into ``docs/pictures``, with at most 256 colours. Look at them before you commit them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from PIL import Image

_ROOT: Final = Path(__file__).parents[2]
_PICTURES: Final = _ROOT / "docs" / "pictures"
_MAX_BYTES: Final = 150_000
_TAKEN_BY: Final = {
    "demo-form": "test_demo.py",
    "demo-lab": "test_demo.py",
    "demo-service": "test_demo.py",
    "my-devices": "test_my_devices.py",
}
"""Names of pictures, and the tests that take them."""


def refresh(taken: Path, name: str) -> int:
    """Put a picture into the documentation; returns its size in bytes."""
    target = _PICTURES / f"{name}.png"
    with Image.open(taken / f"{name}.png") as picture:
        picture.convert("RGB").quantize(256).save(target, optimize=True)
    return target.stat().st_size


def main(names: list[str]) -> int:
    """Run the tests that take some pictures, all by default; returns the exit code."""
    unknown = set(names) - _TAKEN_BY.keys()
    if unknown:
        sys.stderr.write(f"unknown: {', '.join(sorted(unknown))}; there are: {', '.join(_TAKEN_BY)}\n")
        return 2
    wanted = names or list(_TAKEN_BY)
    tests = sorted({f"tests/browser/{_TAKEN_BY[name]}" for name in wanted})
    with tempfile.TemporaryDirectory() as directory:
        environment = {**os.environ, "DRA_SPAWNER_PICTURES": directory}
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-m", "", "-n", "0", *tests], cwd=_ROOT, env=environment
        )
        if done.returncode:
            return done.returncode
        sizes = {name: refresh(Path(directory), name) for name in wanted}
    for name, size in sizes.items():
        sys.stdout.write(f"docs/pictures/{name}.png: {size} bytes\n")
    too_large = [name for name, size in sizes.items() if size >= _MAX_BYTES]
    if too_large:
        sys.stderr.write(f"at most {_MAX_BYTES} bytes are allowed: {', '.join(too_large)}\n")
    return 1 if too_large else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
