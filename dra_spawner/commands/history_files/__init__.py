"""What ``history`` does: import launches, export records, and delete the records of a user."""
