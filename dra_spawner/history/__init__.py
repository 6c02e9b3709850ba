"""The history: records of launches, lead times of nodes, and decisions."""
