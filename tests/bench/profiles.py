"""How long it takes to compile and check a long list of profiles, beside loading the same list as JSON.

Run it with ``python -m tests.bench.profiles``; the list has 200 choices, the cluster 100 nodes with 8 devices each. What
is warm and what is not is said in each line: *cold* is the first list a process ever sees against facts it has never
seen, *new facts* is a hub that has read the cluster again, *same facts* is a spawn or another check.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from dra_spawner.dra.model.objects import DeviceClass, ResourceSlice
from dra_spawner.profiles.choices import list_choices
from dra_spawner.profiles.facts import ClusterFacts
from dra_spawner.profiles.findings import Level
from dra_spawner.profiles.lint import Inventory, check_choices
from tests.bench.figures import options_parser, timed
from tests.bench.fleet import Fleet

CLASS = "gpu.example.com"
CHOICES_A_PROFILE = 10


def profile_list(choices: int) -> list[dict[str, Any]]:
    """Profiles of ten choices each: sizes of shares, products, numbers of devices, alternatives, CEL."""
    profiles = []
    for number in range(choices // CHOICES_A_PROFILE):
        sizes = {
            f"size-{index}": {
                "display_name": f"{index} shares",
                "kubespawner_override": {
                    "device_claims": {"gpu": {"capacity": {"memory": f"{5 * (index + 1)}Gi"}}},
                    "mem_limit": f"{index + 1}G",
                },
            }
            for index in range(CHOICES_A_PROFILE)
        }
        request: dict[str, Any] = {"device_class": CLASS, **_words(number)}
        profiles.append(
            {
                "display_name": f"Profile {number}",
                "slug": f"profile-{number}",
                "kubespawner_override": {"device_claims": {"gpu": request}, "environment": {"NUMBER": str(number)}},
                "profile_options": {"size": {"display_name": "Size", "choices": sizes}},
            }
        )
    return profiles


def _words(number: int) -> dict[str, Any]:
    own = f'device.attributes["{CLASS}"]'
    return (
        {},
        {"product": "A100*"},
        {"product": f"A{number}00*"},
        {"where": f'has({own}.productName) && {own}.productName == "A100 80GB"'},
        {"where": [f"has({own}.index) && {own}.index > {number % 4}"], "min_memory": "40Gi"},
    )[number % 5]


def cluster_facts(nodes: int) -> ClusterFacts:
    """Facts as a hub reads them, decoded."""
    fleet = Fleet(nodes, shared=True)
    classes = map(DeviceClass.from_json, fleet.classes)
    return ClusterFacts(
        device_classes={each.name: each for each in classes},
        slices=tuple(map(ResourceSlice.from_json, fleet.slices)),
        nodes=tuple(fleet.nodes),
        namespace_labels={},
        kubernetes_version=(1, 36),
        dropped_fields=frozenset(),
    )


def milliseconds(work: Callable[[], object], repeat: int) -> float:
    """Best of some runs, in processor time, without other work of the machine."""
    spent: list[float] = []
    for _ in range(repeat):
        with timed(spent):
            work()
    return min(spent) * 1000


def main() -> None:
    options = options_parser(__doc__, choices=200, nodes=100, repeat=15).parse_args()
    profiles = profile_list(options.choices)
    text = json.dumps(profiles)
    facts = cluster_facts(options.nodes)

    cold: list[float] = []
    with timed(cold):
        report = check_choices(list_choices(profiles, {}), facts)
    inventory = Inventory(facts)
    check_choices(list_choices(profiles, {}), inventory)
    loading = milliseconds(lambda: json.loads(text), options.repeat)
    compiling = milliseconds(lambda: list(list_choices(profiles, {})), options.repeat)
    same = milliseconds(lambda: check_choices(list_choices(profiles, {}), inventory), options.repeat)
    new = milliseconds(lambda: check_choices(list_choices(profiles, {}), Inventory(facts)), options.repeat)
    print(
        f"{len(report.choices)} choices, {options.nodes} nodes, {len(inventory.devices)} devices, {len(text)} bytes of JSON"
    )
    for label, duration in (
        ("loading the list as JSON", loading),
        ("compiling, CEL known", compiling),
        ("compiling and checking, same facts", same),
        ("compiling and checking, new facts, CEL known", new),
        ("compiling and checking, cold", cold[0] * 1000),
    ):
        print(f"{label:46} {duration:8.1f} ms {duration / loading:8.0f} x JSON")
    print(", ".join(f"{report.count(level)} {level}s" for level in Level))


if __name__ == "__main__":
    main()
