"""Problems of a hub's static configuration of devices, VLANs and profiles, for the hub's start."""

from __future__ import annotations

from dra_spawner.profiles import profile_list_problems
from dra_spawner.profiles.compiler.vlan_policy import parse_vlan_policy
from dra_spawner.profiles.intel_gas.gas_findings import intel_gas_problems
from dra_spawner.profiles.syntax.problems import Problem, ProfileError
from dra_spawner.spawner.server_context import ServerContext


def configuration_problems(server: ServerContext) -> list[Problem]:
    """Return the problems of a server's settings; what a function returns as profiles is not known."""
    spawner, profiles = server.spawner, server.configured_profiles
    problems = profile_list_problems(profiles, spawner.device_claims, known_traits=spawner.trait_names())
    # These profiles must be valid.
    intel_gas = [] if problems else intel_gas_problems(profiles, spawner.intel_gas)
    return [*problems, *intel_gas, *_vlan_problems(spawner.vlans)]


def _vlan_problems(vlans: object) -> list[Problem]:
    try:
        parse_vlan_policy(vlans)
    except ProfileError as error:
        return list(error.problems)
    return []
