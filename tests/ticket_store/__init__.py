"""Tests of tickets in the cluster."""
