"""``dra-spawner doctor``: examine a live cluster, and print what is wrong and what to do."""
