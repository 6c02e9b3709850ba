"""The queue for devices: who waits, for administrators and for users."""
