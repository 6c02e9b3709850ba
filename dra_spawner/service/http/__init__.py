"""The service's web side: API, page, metrics."""
