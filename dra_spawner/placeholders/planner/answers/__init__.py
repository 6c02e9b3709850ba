"""What is answered about a start: where it goes, whether and when it can, and how long it waits."""
