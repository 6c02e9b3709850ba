"""Imports of past launches, and their sources."""
