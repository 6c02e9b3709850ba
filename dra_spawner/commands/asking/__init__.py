"""Commands that ask a running service: its state, announced classes, and drains."""
