"""``dra-spawner try``: a throw-away server for each choice, and a look inside it."""
