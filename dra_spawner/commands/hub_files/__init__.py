"""Profiles of a hub's configuration and of Helm values."""
