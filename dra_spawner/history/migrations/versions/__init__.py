"""The migrations, one module each. A released migration does not change."""
