"""Objects of a cluster and claims, in files: read, located, checked."""
