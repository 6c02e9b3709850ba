"""The hub's data about devices and nodes, and their use in a start."""
