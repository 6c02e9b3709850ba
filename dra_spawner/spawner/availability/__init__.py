"""Availability in the spawn form: what the service says of each choice, and how the form shows it."""
