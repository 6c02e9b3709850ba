"""From text to a tree."""
