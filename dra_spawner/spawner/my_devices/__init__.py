"""What a server may ask the hub about its own devices."""
