"""The queue for devices, pure: tickets, their order, and expected waits."""
