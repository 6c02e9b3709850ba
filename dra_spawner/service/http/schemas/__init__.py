"""Schemas of answers."""
