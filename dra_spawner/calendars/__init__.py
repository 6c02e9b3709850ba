"""Calendars: when more users than usual are expected."""
