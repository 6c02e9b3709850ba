"""What ``replay`` does: read traces and clusters in files, and report."""
