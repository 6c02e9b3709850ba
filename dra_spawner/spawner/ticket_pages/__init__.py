"""The queue for devices as users see it: their own tickets, and what they may do with them."""
