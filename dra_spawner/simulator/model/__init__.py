"""Pods, nodes and claims as the scheduler reads them, and tables of them that can be forked."""
