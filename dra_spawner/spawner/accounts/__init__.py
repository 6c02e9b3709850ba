"""Accounts of what a hub itself gives to servers: cards of Intel GPUs, VLANs."""
