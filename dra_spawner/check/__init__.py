"""``dra-spawner check``, ``render`` and ``schema``: profiles before a user meets them."""
