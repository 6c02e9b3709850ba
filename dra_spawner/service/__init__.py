"""The service: what `dra-spawner service` runs, beside the hub or managed by it."""

from dra_spawner.service.application import DRASpawnerService, main

__all__ = ["DRASpawnerService", "main"]
