"""Preflight of a live cluster: facts that API server, hub and service tell, and what is wrong, each with its fix."""
