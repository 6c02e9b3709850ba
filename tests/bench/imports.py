"""Processor time, modules and lines of ``import dra_spawner.spawner`` on top of KubeSpawner's own import.

Run ``python -m tests.bench.imports``. Each round is a new process, with compiled modules.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys

from tests.bench.figures import options_parser


def main() -> int:
    parser = options_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="new processes (%(default)s)")
    command = [sys.executable, "-m", "tests.hub_imports"]
    rounds = []
    for _ in range(parser.parse_args().rounds + 1):  # the first compiles
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        rounds.append(json.loads(done.stdout))
    seconds = [each["seconds"] for each in rounds[1:]]
    print(f"{rounds[0]['count']} modules, {rounds[0]['lines']} lines (at most 150 and 20,000)")
    print(f"{statistics.median(seconds):.2f} s, {min(seconds):.2f} to {max(seconds):.2f} (aim: at most 0.2)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
