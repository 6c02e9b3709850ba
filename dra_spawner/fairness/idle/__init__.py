"""Devices that are held but idle, pure: what was seen of a server, whether it is idle, and what is done then."""
