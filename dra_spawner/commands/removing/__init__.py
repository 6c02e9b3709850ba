"""What ``uninstall`` does: find and remove what this project wrote to a cluster, and list what is left."""
