"""The service's addresses, from its OpenAPI document."""

from __future__ import annotations

import json
from typing import Any

from dra_spawner.service.http.openapi import openapi_document
from dra_spawner.service.http.web_application import ADDRESSES

from .markdown import table

__all__ = ["http_addresses"]


def http_addresses() -> str:
    """Each address and method: who may, parameters, question, answer, errors."""
    document = openapi_document(ADDRESSES, "/services/dra-spawner/")
    parts = []
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if method in ("get", "post", "put", "delete"):
                parts.append(_section(f"{method.upper()} {path.lstrip('/')}".strip(), item, operation))
    return "\n".join(parts)


def _section(title: str, item: dict[str, Any], operation: dict[str, Any]) -> str:
    parts = [f"## {title if not title.endswith((' ', 'GET')) else 'GET (the page)'}\n"]
    parts += [f"{operation[key]}\n" for key in ("summary", "description") if operation.get(key)]
    parameters = [*item.get("parameters", ()), *operation.get("parameters", ())]
    parts.append(
        table(
            ("parameter", "in", "type", "meaning"),
            (
                (f"`{each['name']}`", each["in"], _type(each.get("schema", {})), each.get("description", ""))
                for each in parameters
            ),
        )
    )
    if body := operation.get("requestBody"):
        parts.append(_content("Question", body))
    for status, answer in operation["responses"].items():
        if str(status).startswith(("1", "2", "3")):
            parts.append(_content(f"Answer {status}: {answer.get('description', '').rstrip('.')}", answer))
    errors = [str(status) for status in operation["responses"] if str(status) >= "4"]
    if errors:
        parts.append(f"Errors: {', '.join(errors)}.\n")
    return "\n".join(filter(None, parts))


def _content(title: str, of: dict[str, Any]) -> str:
    parts = [f"**{title}**\n"]
    for kind, content in of.get("content", {}).items():
        schema = content.get("schema", {})
        parts.append(table(("member", "type", "meaning"), _members(schema)))
        example = content.get("example", schema.get("example"))
        if kind == "application/json" and example is not None:
            parts.append(f"```json\n{json.dumps(example, indent=2, ensure_ascii=False)}\n```\n")
    return "\n".join(filter(None, parts))


def _members(schema: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [
        (f"`{name}`", _type(member), member.get("description", ""))
        for name, member in schema.get("properties", {}).items()
    ]


def _type(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    kind = schema.get("type", "")
    return " or ".join(kind) if isinstance(kind, list) else kind
