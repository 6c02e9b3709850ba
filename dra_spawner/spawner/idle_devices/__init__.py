"""Servers whose devices are idle: what servers report, what their users are told, and "I still need it"."""
