"""Replay of launches in virtual time: what a policy would have done, through the planner's own code."""
