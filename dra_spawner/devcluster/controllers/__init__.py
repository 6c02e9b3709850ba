"""Controllers of kube-controller-manager, with their loop and queue."""
