"""Estimated costs, as the API server judges an expression when it is created."""
