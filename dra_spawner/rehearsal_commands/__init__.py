"""`dra-spawner rehearse`: reading a cluster, or files, and printing a rehearsal."""
