"""The OpenAPI document is valid, and its examples are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from dra_spawner.service.http.openapi import openapi_document
from dra_spawner.service.http.web_application import ADDRESSES
from tests.all_of_them import all_of_them

DOCUMENT = openapi_document(ADDRESSES, "/services/dra-spawner/")


def contents(part: Any, path: str = "") -> Iterator[Any]:
    """Each schema with its example."""
    if isinstance(part, dict):
        if "schema" in part and "example" in part:
            yield pytest.param(part["schema"], part["example"], id=path)
        for key, each in part.items():
            if key != "schema":
                yield from contents(each, f"{path} {key}")
    elif isinstance(part, list):
        for number, each in enumerate(part):
            yield from contents(each, f"{path} {number}")


def test_the_document_is_valid() -> None:
    assert list(OpenAPIV31SpecValidator(DOCUMENT).iter_errors()) == []
    operations = [
        each["operationId"] for item in DOCUMENT["paths"].values() for each in item.values() if "operationId" in each
    ]
    assert len(operations) == len(set(operations)) > 15


@all_of_them("schema, example", contents(DOCUMENT["paths"]))
def test_examples_are_valid(schema: Any, example: Any) -> None:
    assert list(Draft202012Validator(schema).iter_errors(example)) == []
