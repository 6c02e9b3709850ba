"""A pure model of the scheduler's decisions, computed from objects."""
