"""What runs in a user's server. It needs Python alone; the extension of JupyterLab needs Jupyter Server besides."""
