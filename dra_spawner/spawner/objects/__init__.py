"""What a start of a server creates in Kubernetes beside its pod, and its removal."""
