"""Handlers of the API."""
