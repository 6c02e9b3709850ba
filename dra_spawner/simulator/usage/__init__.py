"""How much of the devices is used."""
