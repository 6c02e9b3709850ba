"""The page Classes, its API, and the feed of calendars: for people who announce classes or ask for them."""
