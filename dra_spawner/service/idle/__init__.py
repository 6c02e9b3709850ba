"""Idle servers with devices: what is asked about them, and what the leader does."""
