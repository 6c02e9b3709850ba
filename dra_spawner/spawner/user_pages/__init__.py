"""Parts of JupyterHub pages that this project adds to."""
