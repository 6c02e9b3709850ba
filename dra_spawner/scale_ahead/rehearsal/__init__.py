"""Rehearsals: can announced users all start at their time? The simulator proves the answer."""
