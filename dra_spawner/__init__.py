"""JupyterHub on Kubernetes with shares of devices, by Dynamic Resource Allocation."""

__version__ = "0.1.0"
