"""Addresses of idle servers."""
