"""DRASpawner: turns a user's choice in the spawn form into claims for devices, and a pod that names them."""

from dra_spawner.spawner.spawner import DRASpawner

__all__ = ["DRASpawner"]
