"""Resources that the hub itself assigns to servers: cards of Intel GPUs, VLANs."""
