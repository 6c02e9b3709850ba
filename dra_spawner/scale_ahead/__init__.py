"""Placeholders ahead of demand: calendars, estimates, rehearsals, replays, reports, and the controller of targets."""
