"""What is known of a server while it starts, runs and ends: times, messages, its record."""
