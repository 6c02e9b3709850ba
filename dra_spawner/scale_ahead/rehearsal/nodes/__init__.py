"""Nodes of a rehearsal: their kinds, what new ones look like, and how many there can be."""
