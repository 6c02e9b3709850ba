"""Devices of nodes: what is allocated, what fits, and caches of verdicts."""
