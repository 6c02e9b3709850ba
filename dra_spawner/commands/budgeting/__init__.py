"""What ``dra-spawner budgets`` does: read budgets, groups and the history, and print use and effects."""
