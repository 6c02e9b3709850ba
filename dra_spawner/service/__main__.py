"""``python -m dra_spawner.service``: what a hub starts that manages the service itself."""

import sys

from dra_spawner.service import main

if __name__ == "__main__":
    sys.exit(main())
