"""Nodes and devices that keep large devices free."""
