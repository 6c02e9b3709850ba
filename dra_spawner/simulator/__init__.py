"""What the scheduler would decide, computed from objects alone, pure."""
