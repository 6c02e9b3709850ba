"""One round: what it waits for, what it carries out, and what it may not repeat yet."""
