"""Functions and operators of expressions, and what a call costs."""
