"""The queue for devices while the service runs."""
