"""``dra-spawner demo``: a hub with example profiles, on an embedded cluster with example nodes or on a real cluster."""
