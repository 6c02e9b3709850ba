"""``dra-spawner rehearse``: reads a cluster, or files, and prints a rehearsal."""
