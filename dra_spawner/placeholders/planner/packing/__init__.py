"""Which devices stay free: for large requests, and for tickets of several devices."""
