"""kube-controller-manager's part: controllers, with their loop and queue."""
