"""How many placeholders the next minutes need: estimators, their maximum, and policies. Standard library only.

A *profile group* is a set of profiles whose servers fit the same nodes; they share one count, since pooled demand needs
less safety. Minutes are whole numbers, counted from 1970-01-01T00:00Z.
"""
