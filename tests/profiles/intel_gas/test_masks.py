"""``ZE_AFFINITY_MASK`` is the plugin's value for the same annotation."""

from tests.all_of_them import all_of_them
from tests.profiles.intel_gas.plugin import affinity_mask

COMPOSITE, FLAT, COMBINED = "COMPOSITE", "FLAT", "COMBINED"


@all_of_them(
    "annotation, index, hierarchies, tiles_per_card, mask",
    {
        "position, not number": ("card1:gt1", 0, [COMPOSITE], 2, "0.1"),
        "one tile a card": ("card1:gt0", 0, [COMPOSITE], 1, ""),
        "one card, two tiles": ("card0:gt0+gt1", 0, [COMPOSITE], 2, "0.0,0.1"),
        "two of three tiles": ("card1:gt1+gt2", 0, [COMPOSITE], 3, "0.1,0.2"),
        "two cards, one tile": ("card1:gt3,card2:gt4", 0, [COMPOSITE], 5, "0.3,1.4"),
        "three by two": ("card0:gt0+gt1,card1:gt2+gt3,card2:gt3+gt4", 0, [COMPOSITE], 5, "0.0,0.1,1.2,1.3,2.3,2.4"),
        "unknown hierarchy is flat": ("card1:gt1+gt2,card2:gt0", 0, ["FOOBAR"], 3, "1,2,3"),
        "hierarchy in lower case is flat": ("card1:gt1+gt2,card2:gt0", 0, ["composite"], 3, "1,2,3"),
        "flat": ("card1:gt1+gt2,card2:gt0", 0, [FLAT], 3, "1,2,3"),
        "no container is flat": ("card1:gt1+gt2,card2:gt0", 0, [], 3, "1,2,3"),
        "no variable is flat": ("card1:gt1+gt2,card2:gt0", 0, [None], 3, "1,2,3"),
        "two empty sections first": ("||card1:gt1+gt2,card2:gt0", 0, [None, None, FLAT], 3, "1,2,3"),
        "four empty sections first": ("||||card1:gt3,card5:gt1", 0, [None] * 4 + [FLAT], 8, "3,9"),
        "combined": ("card1:gt1+gt2,card2:gt1", 0, [COMBINED], 3, "1,2,4"),
        "combined, two cards": ("card1:gt1,card2:gt1", 0, [COMBINED], 2, "1,3"),
        "index past the end": ("card1:gt1", 1, [], 2, ""),
        "index before the beginning": ("card1:gt1", -1, [], 2, ""),
        "second container": ("card1:gt1|card2:gt4", 1, [], 5, "4"),
        "second, two cards": ("card1:gt1|card2:gt4,card3:gt2", 1, [COMPOSITE] * 2, 5, "0.4,1.2"),
        "third container": ("card1:gt1|card2:gt4,card3:gt2|card5:gt0", 2, [COMPOSITE] * 3, 5, "0.0"),
        "empty sections around": ("||card5:gt0,card6:gt4||", 0, ["", "", COMPOSITE], 5, "0.0,1.4"),
        "past the end, empty sections around": ("||card5:gt0,card6:gt4||", 1, ["", "", COMPOSITE], 5, ""),
        "empty section between": ("card1:gt1||card2:gt4,card3:gt2", 1, ["", "", COMPOSITE], 6, "0.4,1.2"),
        "hierarchy by position, not by count": ("card1:gt1||card2:gt4", 1, ["", COMPOSITE, FLAT], 6, "4"),
        "last of four": ("|||card2:gt7", 0, ["", "", "", COMPOSITE], 8, "0.7"),
        "two colons": ("||card5:gt0,card:6:gt4||", 0, [COMPOSITE] * 5, 5, ""),
        "tiles without numbers": ("||card5:gt0,card6:gt+gt+gt||", 0, [COMPOSITE] * 5, 5, ""),
        "letter for a number": ("card1:gtX", 0, [COMPOSITE], 5, ""),
        "no gt": ("card1:64X", 0, [COMPOSITE], 5, ""),
        "number beyond 16 bits": ("card1:gt40000", 0, [COMPOSITE], 5, ""),
        "only a divider": ("|", 0, [COMPOSITE], 5, ""),
        "only dividers": ("||||", 0, [COMPOSITE], 5, ""),
        "empty": ("", 0, [COMPOSITE], 5, ""),
        "card without tiles": ("card5", 0, [COMPOSITE], 5, ""),
    },
)
def test_mask(annotation, index, hierarchies, tiles_per_card, mask):
    assert affinity_mask(annotation, index, hierarchies, tiles_per_card) == mask
