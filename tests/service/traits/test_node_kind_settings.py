"""The setting of kinds of nodes has the form of `nodes:` in the file of `dra-spawner rehearse` and `simulate`."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from traitlets import TraitError

from dra_spawner.commands.cluster_files.documents import read_documents
from dra_spawner.commands.cluster_files.limits import PROFILE_FILES
from dra_spawner.commands.replaying.cluster_file import parse_cluster
from dra_spawner.profiles.syntax.settings_reader import SettingsError
from dra_spawner.service.application import DRASpawnerService
from dra_spawner.service.traits.node_kind_settings import max_nodes_by_kind, read_node_kinds
from tests.all_of_them import all_of_them

EVERYTHING = """
nodes:
  - {name: a100, profiles: [gpu-slice, gpu], slots: 8, lead_minutes: [6, 8, 9.5], image_minutes: 2, max_nodes: 60,
     starts_per_minute: 5, unneeded_minutes: 7, price: 3.2, labels: {hub.jupyter.org/node-pool: a100}}
  - {name: t4, slots: 4, lead_minutes: 3}
  - {name: none, slots: 4, lead_minutes: 3, max_nodes: 0, image_minutes: null}
"""


def test_the_setting_is_read_as_the_file_is() -> None:
    (document,) = read_documents("cluster.yaml", EVERYTHING.replace(", image_minutes: null", ""), PROFILE_FILES)
    expected = parse_cluster(document, has_groups=False).kinds
    assert read_node_kinds(yaml.safe_load(EVERYTHING)["nodes"]) == expected
    assert [each.max_nodes for each in expected] == [60, None, 0]


def test_the_service_refuses_a_wrong_one() -> None:
    with pytest.raises(TraitError, match=r"node_kinds\[0\].slots: found 0; allowed: a whole number from 1 to 10000"):
        DRASpawnerService(node_kinds=[{**KIND, "slots": 0}])


KIND = {"name": "a", "slots": 8, "lead_minutes": 6}


@all_of_them("value, message", [
    pytest.param({"nodes": []}, "node_kinds: found {'nodes': []}; allowed: a list of at most 100", id="the whole file"),
    pytest.param([3], "node_kinds[0]: found 3; allowed: a mapping like", id="no mapping"),
    pytest.param([{}], "node_kinds[0].name: nothing found; allowed: a text", id="no name"),
    pytest.param([{"name": "a"}], "node_kinds[0].lead_minutes: nothing found; allowed: minutes from the order", id="no lead"),
    pytest.param([{**KIND, "lead_minutes": []}], "node_kinds[0].lead_minutes: found []; allowed: a number from", id="no leads"),
    pytest.param([{**KIND, "lead_minutes": [6, "x"]}], "node_kinds[0].lead_minutes: found [6, 'x']", id="a text"),
    pytest.param([{**KIND, "lead_minutes": 0}], "node_kinds[0].lead_minutes: found 0", id="at once"),
    pytest.param([{**KIND, "lead_minutes": 10081}], "to 10080, or a list of them", id="more than a week"),
    pytest.param([{**KIND, "labels": {"a": 3}}], "node_kinds[0].labels: found", id="labels"),
    pytest.param([{**KIND, "profiles": "gpu"}], "node_kinds[0].profiles: found 'gpu'; allowed: a list of texts", id="profiles"),
    pytest.param([{**KIND, "max_nodes": -1}], "node_kinds[0].max_nodes: found -1", id="max-nodes"),
    pytest.param([{**KIND, "speed": 3}], "node_kinds[0].speed: found 'speed'; allowed: the keys name", id="unknown key"),
    pytest.param([KIND, KIND], "node_kinds[1].name: found 'a'; allowed: a name that no other kind has", id="twice"),
])  # fmt: skip
def test_errors_are_reported(value: Any, message: str) -> None:
    with pytest.raises(SettingsError) as error:
        read_node_kinds(value)
    assert message in str(error.value)


def test_max_nodes_by_the_label_that_distinguishes_kinds() -> None:
    labelled = {"labels": {"type": "a2", "zone": "b"}, "max_nodes": 3}
    kinds = read_node_kinds(
        [
            {**KIND, "max_nodes": 8},
            {**KIND, "name": "b", **labelled},
            {**KIND, "name": "c", **labelled},
            {**KIND, "name": "without a maximum"},
            {**KIND, "name": "of unknown type", "labels": {"zone": "b"}, "max_nodes": 3},
        ]
    )
    assert max_nodes_by_kind(kinds, "type") == {"a": 8, "a2": 6}
