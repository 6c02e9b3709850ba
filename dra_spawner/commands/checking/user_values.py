"""Values of template variables such as ``{username}`` outside a hub."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kubespawner.slugs import safe_slug

from dra_spawner.profiles.compiler.claim_templates import vlan_numbers
from dra_spawner.profiles.compiler.vlan_policy import OwnerKind, VlanPolicy, parse_vlan_policy
from dra_spawner.profiles.compiler.vlans import VlanRefused, vlan_owner
from dra_spawner.profiles.syntax.problems import ProfileError
from dra_spawner.profiles.syntax.templates import SAMPLE_VALUES, Values

__all__ = ["user_values"]


def user_values(user: str, groups: Collection[str], namespace: str, vlans: object) -> Values:
    """Values of a user's default server.

    Parameters
    ----------
    groups
        The user's groups; empty: the user counts as a member of a group that may have a VLAN.
    vlans
        ``DRASpawner.vlans``. A range gives its first VLAN, as if none were in use.
    """
    slug = safe_slug(user)
    return {
        **SAMPLE_VALUES,
        "username": slug,
        "user_server": slug,
        "servername": "",
        "unescaped_username": user,
        "unescaped_servername": "",
        "pod_name": f"jupyter-{slug}",
        "namespace": namespace,
        **_vlan_values(user, groups, vlans),
    }


def _vlan_values(user: str, groups: Collection[str], vlans: object) -> Mapping[str, str | int]:
    try:
        policy = parse_vlan_policy(vlans)
    except ProfileError:
        return {}  # `dra-spawner check` reports what is wrong
    if policy is None:
        return {}
    name = vlan_owner(policy, user, groups or policy.groups)
    if isinstance(name, VlanRefused):
        return {}
    return _values_of(policy, name)


def _values_of(policy: VlanPolicy, name: str) -> Mapping[str, str | int]:
    mapped = policy.mapping.get(name)
    values: dict[str, str | int] = {**vlan_numbers(mapped.vlan if mapped is not None else policy.vlans[0])}
    if policy.by is OwnerKind.GROUP:
        values["group"] = safe_slug(name)
    return values | dict(mapped.values if mapped is not None else ())
