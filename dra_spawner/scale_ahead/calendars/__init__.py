"""Calendars: times at which more users than usual are expected."""
