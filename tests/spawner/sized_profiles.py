"""Profiles whose users choose an amount of a GPU's memory."""

from __future__ import annotations

from typing import Any


def sizes(*amounts: str, default: str = "") -> dict[str, Any]:
    """Options of a profile: amounts such as ``15Gi``, which users read as "15 GiB"."""
    choices = {
        each: {
            "display_name": each.replace("Gi", " GiB"),
            "kubespawner_override": {"device_claims": {"gpu": {"capacity": {"memory": each}}}},
            **({"default": True} if each == default else {}),
        }
        for each in amounts
    }
    return {"memory": {"display_name": "Memory", "choices": choices}}


def sized_share(name: str, slug: str, *amounts: str, default: str = "") -> dict[str, Any]:
    """A profile with a part of a shareable GPU."""
    return {
        "display_name": name,
        "slug": slug,
        "kubespawner_override": {"device_claims": {"gpu": {"device_class": "gpu-share.example.com"}}},
        "profile_options": sizes(*amounts, default=default),
    }
