"""The dra-spawner service as the demo's hub starts it: it notes its process, so that the demo can end it in any case.

A hub that is killed leaves the services that it manages behind.
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
