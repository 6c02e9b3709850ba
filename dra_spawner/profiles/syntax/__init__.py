"""How values are read: keys, rules, templates, layers, problems."""
