"""Objects that a start creates beside its pod, and their removal."""
