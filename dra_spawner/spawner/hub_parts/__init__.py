"""The hub around a spawner: its web application, what all spawners share, its namespaces."""
