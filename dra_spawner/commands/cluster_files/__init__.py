"""``dra-spawner fit``: would these claims fit, where, and if not, why? Offline, from the output of kubectl."""
