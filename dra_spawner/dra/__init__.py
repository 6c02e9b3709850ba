"""Kubernetes' device model (``resource.k8s.io/v1``), pure: no input, no output, no clock."""
