"""What is written down of rounds and starts: counts, times, events."""
