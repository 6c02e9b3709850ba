"""Carries out what the planner decides, and answers servers that are about to start."""
