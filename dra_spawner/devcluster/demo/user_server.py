"""A user's server of the demo: JupyterHub's, without what only makes its start slower.

``jsonschema`` takes ``rfc3987_syntax`` where it is installed, for a format that Jupyter Server uses nowhere. Its import
compiles a grammar, which is half of the processor time of all imports of a server. The files in ``jupyter/`` leave out
what servers of the demo have no use for: language servers, which are not installed, the extension manager, news, the
check whether JupyterLab must be built, and settings of the classic notebook. The server opens with a notebook, whose
kernel starts while the page loads.
"""

import os
import shutil
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]  # how Python says that a module is not to be found
    paths = (str(Path(__file__).with_name("jupyter")), os.environ.get("JUPYTER_CONFIG_PATH", ""))
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(filter(None, paths))
    if not Path("welcome.ipynb").exists():
        shutil.copyfile(Path(__file__).with_name("jupyter") / "welcome.ipynb", "welcome.ipynb")
    from jupyterhub.singleuser import main

    main()
