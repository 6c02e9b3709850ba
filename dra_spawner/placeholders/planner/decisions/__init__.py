"""Decisions of a round, one a module."""
