"""From a tree to a function of a device, within a budget."""
