"""The service's HTTP handlers: API, page, metrics."""
