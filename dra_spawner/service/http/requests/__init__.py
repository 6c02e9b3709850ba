"""Requests: who asks, what may be asked, limits, the frame of an answer."""
