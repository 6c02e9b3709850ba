"""The answer of ``dra-spawner service`` to where a server is placed, and what it changes in a pod."""
