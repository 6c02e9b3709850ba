"""``dra-spawner check``, ``render`` and ``schema``: test profiles before users see them."""
