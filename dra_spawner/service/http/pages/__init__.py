"""Pages, and the charts and words in them."""
