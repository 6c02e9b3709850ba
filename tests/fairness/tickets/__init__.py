"""Tests of the queue for devices, pure."""
