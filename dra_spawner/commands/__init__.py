"""The commands of ``dra-spawner``: a module for each, which is imported when the command is called."""
