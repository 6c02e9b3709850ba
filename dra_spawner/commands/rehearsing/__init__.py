"""What ``rehearse`` does: read a cluster, or files, and print a rehearsal."""
