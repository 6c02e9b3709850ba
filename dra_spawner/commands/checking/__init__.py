"""What ``check``, ``render`` and ``schema`` do: test profiles before users see them."""
