"""Reports about placeholders: misses with their causes, and figures over time, as text and pictures."""
