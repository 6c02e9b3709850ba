"""Replay of launches in virtual time: results that a policy would have had, computed by the planner's own code."""
