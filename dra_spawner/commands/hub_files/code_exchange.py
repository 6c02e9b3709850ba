"""Names that the command and the process of a hub's code share: files, marks of values, spawner classes."""

from __future__ import annotations

from typing import Final

QUESTION: Final = "question.json"
ANSWER: Final = "answer.json"
OBJECT: Final = "\0object"
"""Key of a mapping that stands for a value which JSON lacks."""
SECTIONS: Final = ("Spawner", "KubeSpawner", "DRASpawner")
"""Sections of DRASpawner's settings; the later override the earlier."""
CHART_CLASS: Final = "kubespawner.KubeSpawner"
"""The spawner class that zero-to-jupyterhub sets before everything else."""
SERVICE_SECTION: Final = "DRASpawnerService"
"""Section of the service's settings."""
OUR_CLASS: Final = "dra_spawner.spawner.DRASpawner"
KNOWN_CLASSES: Final = {
    **dict.fromkeys(("dra", OUR_CLASS, "dra_spawner.spawner.spawner.DRASpawner"), True),
    **dict.fromkeys((CHART_CLASS, "kubespawner.spawner.KubeSpawner"), False),
}
"""Names of spawner classes, and whether each is DRASpawner: they need no import."""
