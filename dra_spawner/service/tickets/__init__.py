"""The queue for devices, as the service serves it."""
