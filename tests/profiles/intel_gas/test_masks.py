"""``ZE_AFFINITY_MASK`` is the plugin's value for the same annotation."""

import pytest

from dra_spawner.profiles.intel_gas.masks import affinity_mask
from tests.all_of_them import all_of_them

COMPOSITE, FLAT, COMBINED = "COMPOSITE", "FLAT", "COMBINED"


@all_of_them(
    [
        pytest.param("card1:gt1", 0, [COMPOSITE], 2, "0.1", id="position, not number"),
        pytest.param("card1:gt0", 0, [COMPOSITE], 1, "", id="one tile a card"),
        pytest.param("card0:gt0+gt1", 0, [COMPOSITE], 2, "0.0,0.1", id="one card, two tiles"),
        pytest.param("card1:gt1+gt2", 0, [COMPOSITE], 3, "0.1,0.2", id="two of three tiles"),
        pytest.param("card1:gt3,card2:gt4", 0, [COMPOSITE], 5, "0.3,1.4", id="two cards, one tile"),
        pytest.param(
            "card0:gt0+gt1,card1:gt2+gt3,card2:gt3+gt4", 0, [COMPOSITE], 5, "0.0,0.1,1.2,1.3,2.3,2.4", id="three by two"
        ),
        pytest.param("card1:gt1+gt2,card2:gt0", 0, ["FOOBAR"], 3, "1,2,3", id="unknown hierarchy is flat"),
        pytest.param("card1:gt1+gt2,card2:gt0", 0, ["composite"], 3, "1,2,3", id="hierarchy in lower case is flat"),
        pytest.param("card1:gt1+gt2,card2:gt0", 0, [FLAT], 3, "1,2,3", id="flat"),
        pytest.param("card1:gt1+gt2,card2:gt0", 0, [], 3, "1,2,3", id="no container is flat"),
        pytest.param("card1:gt1+gt2,card2:gt0", 0, [None], 3, "1,2,3", id="no variable is flat"),
        pytest.param("||card1:gt1+gt2,card2:gt0", 0, [None, None, FLAT], 3, "1,2,3", id="two empty sections first"),
        pytest.param("||||card1:gt3,card5:gt1", 0, [None] * 4 + [FLAT], 8, "3,9", id="four empty sections first"),
        pytest.param("card1:gt1+gt2,card2:gt1", 0, [COMBINED], 3, "1,2,4", id="combined"),
        pytest.param("card1:gt1,card2:gt1", 0, [COMBINED], 2, "1,3", id="combined, two cards"),
        pytest.param("card1:gt1", 1, [], 2, "", id="index past the end"),
        pytest.param("card1:gt1", -1, [], 2, "", id="index before the beginning"),
        pytest.param("card1:gt1|card2:gt4", 1, [], 5, "4", id="second container"),
        pytest.param("card1:gt1|card2:gt4,card3:gt2", 1, [COMPOSITE] * 2, 5, "0.4,1.2", id="second, two cards"),
        pytest.param("card1:gt1|card2:gt4,card3:gt2|card5:gt0", 2, [COMPOSITE] * 3, 5, "0.0", id="third container"),
        pytest.param("||card5:gt0,card6:gt4||", 0, ["", "", COMPOSITE], 5, "0.0,1.4", id="empty sections around"),
        pytest.param(
            "||card5:gt0,card6:gt4||", 1, ["", "", COMPOSITE], 5, "", id="past the end, empty sections around"
        ),
        pytest.param(
            "card1:gt1||card2:gt4,card3:gt2", 1, ["", "", COMPOSITE], 6, "0.4,1.2", id="empty section between"
        ),
        pytest.param(
            "card1:gt1||card2:gt4", 1, ["", COMPOSITE, FLAT], 6, "4", id="hierarchy by position, not by count"
        ),
        pytest.param("|||card2:gt7", 0, ["", "", "", COMPOSITE], 8, "0.7", id="last of four"),
        pytest.param("||card5:gt0,card:6:gt4||", 0, [COMPOSITE] * 5, 5, "", id="two colons"),
        pytest.param("||card5:gt0,card6:gt+gt+gt||", 0, [COMPOSITE] * 5, 5, "", id="tiles without numbers"),
        pytest.param("card1:gtX", 0, [COMPOSITE], 5, "", id="letter for a number"),
        pytest.param("card1:64X", 0, [COMPOSITE], 5, "", id="no gt"),
        pytest.param("card1:gt40000", 0, [COMPOSITE], 5, "", id="number beyond 16 bits"),
        pytest.param("|", 0, [COMPOSITE], 5, "", id="only a divider"),
        pytest.param("||||", 0, [COMPOSITE], 5, "", id="only dividers"),
        pytest.param("", 0, [COMPOSITE], 5, "", id="empty"),
        pytest.param("card5", 0, [COMPOSITE], 5, "", id="card without tiles"),
    ]
)
def test_mask(annotation, index, hierarchies, tiles_per_card, mask):
    assert affinity_mask(annotation, index, hierarchies, tiles_per_card) == mask
