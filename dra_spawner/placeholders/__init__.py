"""Placeholders in the cluster: what `dra_spawner.headroom` decides is carried out here, and claims are promised."""
