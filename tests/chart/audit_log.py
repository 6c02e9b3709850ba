"""Requests of accounts, from the API server's audit log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PREFIX = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class Access:
    """One request.

    Attributes
    ----------
    namespace
        Of the object; empty for all namespaces and for objects without one.
    resource
        With its subresource.
    status
        HTTP status of the answer.
    """

    account: str
    verb: str
    group: str
    resource: str
    namespace: str
    name: str
    status: int


def audit_arguments(directory: Path) -> list[str]:
    """Options of an API server that writes down all requests of service accounts, before it answers them."""
    policy = directory / "audit-policy.json"
    rules = [{"level": "Metadata", "userGroups": ["system:serviceaccounts"]}, {"level": "None"}]
    policy.write_text(
        json.dumps(
            {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules}
        )
    )
    return [
        f"--audit-policy-file={policy}",
        f"--audit-log-path={directory / 'audit.log'}",
        "--audit-log-mode=blocking",
    ]


def accesses(directory: Path) -> Iterator[Access]:
    """All requests so far."""
    with (directory / "audit.log").open() as lines:
        for line in lines:
            # The last line may still be written.
            if line.endswith("\n"):
                yield from _access(json.loads(line))


def _access(event: dict[str, Any]) -> Iterator[Access]:
    target = event.get("objectRef")
    if target is not None:
        resource = "/".join(filter(None, (target["resource"], target.get("subresource"))))
        yield Access(
            account=event["user"]["username"].removeprefix(_PREFIX),
            verb=event["verb"],
            group=target.get("apiGroup", ""),
            resource=resource,
            namespace=target.get("namespace", ""),
            name=target.get("name", ""),
            status=event.get("responseStatus", {}).get("code", 0),
        )
