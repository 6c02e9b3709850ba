"""Makes a picture that moves from the demo: ``python -m tests.browser.moving_picture demo.gif [DIRECTORY]``.

The test of the demo takes a picture at each step (``frame-…png``) of what a newcomer sees. The directory has them, as
CI stores them; without one the test is run first. The file is not committed: the release workflow takes it from CI.
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
_TEST: Final = "tests/browser/test_demo.py::test_from_the_command_to_a_share_in_jupyterlab"
_WIDTH: Final = 880
_STEP_MILLISECONDS: Final = 1800
_MAX_BYTES: Final = 2_000_000


def moving_picture(directory: Path, target: Path) -> int:
    """Write the frames of a directory as an animated GIF; returns its size in bytes, 0 without frames."""
    frames = []
    for path in sorted(directory.glob("frame-*.png")):
        with Image.open(path) as picture:
            height = round(picture.height * _WIDTH / picture.width)
            frames.append(picture.convert("RGB").resize((_WIDTH, height)).quantize(128, dither=Image.Dither.NONE))
    if not frames:
        return 0
    frames[0].save(target, save_all=True, append_images=frames[1:], duration=_STEP_MILLISECONDS, loop=0, optimize=True)
    return target.stat().st_size


def main(arguments: list[str]) -> int:
    """Make the picture; returns the exit code."""
    if len(arguments) not in (1, 2):
        sys.stderr.write("usage: python -m tests.browser.moving_picture FILE [DIRECTORY]\n")
        return 2
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(arguments[1] if len(arguments) == 2 else temporary)
        if len(arguments) == 1:
            environment = {**os.environ, "DRA_SPAWNER_PICTURES": temporary}
            command = [sys.executable, "-m", "pytest", "-q", "-m", "", "-n", "0", _TEST]
            done = subprocess.run(command, cwd=_ROOT, env=environment)
            if done.returncode:
                return done.returncode
        size = moving_picture(directory, Path(arguments[0]))
    sys.stdout.write(f"{arguments[0]}: {size} bytes\n")
    return 0 if 0 < size <= _MAX_BYTES else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
