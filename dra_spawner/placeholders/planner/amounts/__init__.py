"""How many placeholders may exist, and what the planner carries from round to round."""
