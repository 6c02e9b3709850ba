"""The table of docs/reference/api.md, whose cells tests/adversary/test_requests.py sends to a real hub."""

from __future__ import annotations

from dra_spawner.service.http.web_application import ADDRESSES
from tests.api_table import DOCUMENT
from tests.service.http.caller_table import caller_table


def test_the_documents_table_is_that_of_the_declarations() -> None:
    """Copy the expected table into the document when an endpoint is added."""
    table = caller_table(ADDRESSES)
    assert table in DOCUMENT.read_text(), table
