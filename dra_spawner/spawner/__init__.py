"""DRASpawner: what a user picks in the spawn form becomes claims for devices, and a pod that names them.

`spawner` is the way of one start. What concerns one subject only is a part of its own (``*_spawner``) with its traits
and its hooks into KubeSpawner; the other modules are what these parts use.
"""

from dra_spawner.spawner.spawner import DRASpawner

__all__ = ["DRASpawner"]
