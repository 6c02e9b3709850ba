"""What a hub does with DRASpawner when it starts: its class, checks, and the shapes that it publishes."""
