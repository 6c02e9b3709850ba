"""Placeholders: the pure planner decides about them, the controller acts."""
