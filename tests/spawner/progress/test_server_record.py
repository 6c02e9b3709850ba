"""The hub's record of a server's last start."""

import json

from dra_spawner.spawner.progress.server_record import ServerRecord
from dra_spawner.spawner.progress.session_time import SessionTime
from tests.all_of_them import all_of_them


@all_of_them(
    "record",
    {
        "empty": ServerRecord(),
        "place": ServerRecord(place="gpu-3 on node-2"),
        "another choice": ServerRecord("gpu-3 on node-2", instead="This is “Part” instead of “Whole”."),
        "idle time alone": ServerRecord(idle_timeout=0),
        "idle time": ServerRecord("gpu-3 on node-2", idle_timeout=600),
        "lifetime": ServerRecord("gpu-3 on node-2", session=SessionTime(3600, 900, 60.0)),
        "failure": ServerRecord.of_failure("All devices are in use."),
    },
)
def test_a_record_survives_the_database(record):
    assert ServerRecord.of_state(json.loads(json.dumps({"pod_name": "jupyter-ada", **record.state()}))) == record


@all_of_them(
    "state",
    [
        None,
        [],
        {},
        {"dra_spawner": 5},
        {"dra_spawner": {"place": 5, "failure": [], "failed_at": {}}},
        {"dra_spawner": {"failed_at": "yesterday"}},
    ],
)
def test_another_versions_state_is_no_record(state):
    assert ServerRecord.of_state(state) == ServerRecord()


def test_a_server_without_anything_to_remember_adds_nothing_to_the_state():
    assert ServerRecord().state() == {}
