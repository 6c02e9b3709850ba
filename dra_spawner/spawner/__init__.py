"""DRASpawner: what a user picks in the spawn form becomes claims for devices, and a pod that names them."""

from dra_spawner.spawner.spawner import DRASpawner

__all__ = ["DRASpawner"]
