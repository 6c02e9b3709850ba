"""The profiles that the demo offers: five for its own example nodes, or one for each DeviceClass of a real cluster."""

from __future__ import annotations

from collections.abc import Iterable

from dra_spawner.common.json_types import JsonObject

_CPU_ONLY: JsonObject = {
    "display_name": "No device",
    "slug": "cpu",
    "description": "A notebook without any device",
}

EXAMPLE_PROFILES: tuple[JsonObject, ...] = (
    {
        "display_name": "GPU slice",
        "slug": "gpu-slice",
        "description": "A share of a GPU's memory; others use the rest.",
        "default": True,
        "kubespawner_override": {
            "device_claims": {"gpu": {"device_class": "gpu-share.example.com", "capacity": {"memory": "10Gi"}}}
        },
        # The sizes come from the GPUs, so they need no list.
        "profile_options": {"memory": {"display_name": "GPU memory", "choices": "from_policy"}},
    },
    {
        "display_name": "GPU partition",
        "slug": "gpu-partition",
        "description": "A part of a GPU, cut out by the hardware",
        "kubespawner_override": {"device_claims": {"gpu": {"device_class": "mig.example.com"}}},
        "profile_options": {
            "size": {
                "display_name": "Size",
                "choices": {
                    profile: {
                        "display_name": f"{profile}: {part} of a GPU",
                        "kubespawner_override": {
                            "device_claims": {
                                "gpu": {"where": f'device.attributes["gpu.example.com"].profile == "{profile}"'}
                            }
                        },
                    }
                    for profile, part in (
                        ("1g.5gb", "a seventh"),
                        ("2g.10gb", "two sevenths"),
                        ("3g.20gb", "three sevenths"),
                    )
                },
            }
        },
    },
    {
        "display_name": "Whole GPU",
        "slug": "gpu-whole",
        "description": "One GPU that is not shared",
        "kubespawner_override": {"device_claims": {"gpu": {"device_class": "gpu.example.com"}}},
    },
    {
        "display_name": "Network card in a VLAN, 1 Gbit/s",
        "slug": "vlan-nic",
        "description": "A network interface in a VLAN, on a shared card",
        "kubespawner_override": {
            "device_claims": {
                "nic": {"device_class": "vlan-nic.example.com", "capacity": {"bandwidth": "1G", "vlans": 1}}
            }
        },
    },
    _CPU_ONLY,
)


def profiles_for_classes(device_classes: Iterable[str]) -> list[JsonObject]:
    """Profiles for a cluster: the examples if their classes exist, else one profile for each DeviceClass.

    Parameters
    ----------
    device_classes
        Names of the cluster's DeviceClasses.
    """
    present = set(device_classes)
    examples = [profile for profile in EXAMPLE_PROFILES if _classes(profile) <= present]
    if len(examples) == len(EXAMPLE_PROFILES):
        return examples
    return [
        *(
            {
                "display_name": name,
                "slug": name.replace(".", "-"),
                "description": f"One device of class {name}",
                "kubespawner_override": {"device_claims": {"device": {"device_class": name}}},
            }
            for name in sorted(present)
        ),
        _CPU_ONLY,
    ]


def _classes(profile: JsonObject) -> set[str]:
    claims = profile.get("kubespawner_override", {}).get("device_claims", {})
    return {claim["device_class"] for claim in claims.values()}
