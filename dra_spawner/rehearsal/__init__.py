"""Rehearsals: whether the users who are announced for a time can start then, proved by the simulator."""
