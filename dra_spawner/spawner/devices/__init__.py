"""What a hub reads about devices and nodes, and what that says about a start."""
