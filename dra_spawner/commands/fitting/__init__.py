"""What ``fit`` and ``utilization`` answer, and their tables."""
