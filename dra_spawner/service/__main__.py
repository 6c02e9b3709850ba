"""``python -m dra_spawner.service``: a hub that manages the service starts it so."""

import sys

from dra_spawner.service import main

if __name__ == "__main__":
    sys.exit(main())
