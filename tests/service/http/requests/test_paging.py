"""Pages of lists."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_spawner.service.http.requests.paging import Unreadable, page_of, read_token, write_token
from tests.all_of_them import all_of_them


@given(st.sets(st.text(min_size=1)), st.integers(1, 4))
def test_pages_have_each_item_once(names: set[str], limit: int) -> None:
    found, token, seen = sorted(names), "", list[str]()
    for _ in range(len(names) + 1):
        items, token = page_of(found, limit, read_token(token), lambda each: each)
        seen += items
        if not token:
            break
    assert seen == found


@given(st.text())
def test_each_key_is_read_as_it_was_written(key: str) -> None:
    assert read_token(write_token(key)) == key


@all_of_them("token", ["é", "*", "a", "_w", "=", " "])
def test_other_tokens_are_refused(token: str) -> None:
    with pytest.raises(Unreadable):
        read_token(token)
