"""``dra-spawner history``: bring launches into the history, take records out, and forget a user."""
