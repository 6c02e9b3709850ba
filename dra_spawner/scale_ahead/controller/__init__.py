"""Targets that follow demand while the service leads, and their settings."""
