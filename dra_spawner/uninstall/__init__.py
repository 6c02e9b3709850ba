"""``dra-spawner uninstall``: what this project wrote to a cluster, found and removed; what is left to users, named."""
