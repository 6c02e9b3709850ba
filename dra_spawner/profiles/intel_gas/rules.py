"""The rules about Intel GPUs by the device plugin."""

from __future__ import annotations

from typing import Final

from dra_spawner.profiles.findings import Level, LintRule, rules_of

_E, _W, _I = Level.ERROR, Level.WARNING, Level.INFO

LANGUAGE: Final = LintRule("intel-gas-language", (_E,), False, "A value of intel_gas is invalid")
PLUGIN: Final = LintRule(
    "intel-gas-plugin",
    (_E, _W),
    True,
    "The plugin's image on the nodes with these GPUs is 0.34 or later; or no node offers them now",
)
SCHEDULER: Final = LintRule(
    "intel-gas-scheduler",
    (_E, _I),
    False,
    "GAS must choose the cards (scheduler: gas, or annotations written by hand) but does not run; prefer with GAS",
)
TILES: Final = LintRule(
    "intel-gas-tiles",
    (_E, _W),
    False,
    "A tiles annotation with cards that the container does not have, or tiles that no card has; a mask of one's own",
)
COMBINATION: Final = LintRule(
    "intel-gas-combination",
    (_E,),
    False,
    "i915 and xe; gas-same-gpu with tiles, monitoring or more than a card; Xe Links with an odd count",
)
LABELS: Final = LintRule(
    "intel-gas-labels", (_W,), True, "Invalid labels of nodes, or no node with a label that lists its cards"
)
CAPACITY: Final = LintRule("intel-gas-capacity", (_W,), True, "No node has enough cards, even if all were free")

INTEL_GAS_RULES: Final = rules_of(globals())
