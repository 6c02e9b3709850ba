"""Traces and clusters in files, and the report of a replay."""
