"""Reports about placeholders: what was missed and why, over time, as text and pictures."""
