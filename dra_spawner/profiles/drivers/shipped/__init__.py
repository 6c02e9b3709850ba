"""The drivers that this package knows, one a module."""
