"""Objects that a start creates in addition to its pod, and their removal."""
