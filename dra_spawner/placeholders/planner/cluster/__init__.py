"""What there is: the view of a round, the index of the cluster, and memos of both."""
