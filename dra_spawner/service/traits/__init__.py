"""Settings of the service as traitlets."""
