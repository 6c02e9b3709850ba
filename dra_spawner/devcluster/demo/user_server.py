"""A user's server of the demo: JupyterHub's, without a package that only makes its start slower.

``jsonschema`` takes ``rfc3987_syntax`` where it is installed, for a format that Jupyter Server uses nowhere. Its import
compiles a grammar, which is half of the processor time of all imports of a server.
"""

import sys

if __name__ == "__main__":
    sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]  # how Python says that a module is not to be found
    from jupyterhub.singleuser import main

    main()
