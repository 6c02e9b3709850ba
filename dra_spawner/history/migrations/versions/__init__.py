"""The migrations, one module each. They do not change once they are released."""
