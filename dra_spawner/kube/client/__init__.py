"""Requests to the Kubernetes API: connection, errors, checked answers, discovery, rights."""
