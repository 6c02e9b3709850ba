"""The answer of ``dra-spawner service`` about the placement of a server, and the resulting changes of its pod."""
