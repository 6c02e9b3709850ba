"""The dra-spawner service of the demo's hub; it writes a pid file, so that the demo can always end it.

A hub that is killed leaves its services behind.
"""

import os
import sys
from pathlib import Path

from dra_spawner.service import main

if __name__ == "__main__":
    pid_file, *arguments = sys.argv[1:]
    Path(pid_file).write_text(str(os.getpid()))
    code = main(arguments)
    Path(pid_file).unlink(missing_ok=True)
    sys.exit(code)
