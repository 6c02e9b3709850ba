"""Figures of nodes and devices, for page, API and metrics."""
