"""From what an administrator writes to the claims and networks of a server."""
