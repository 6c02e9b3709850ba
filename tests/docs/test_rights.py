"""docs/explanation/security.md: the table of rights is that of the chart's roles."""

from __future__ import annotations

import re

from tests.docs.rights import PAGE, page_with_table, rights_table


def test_the_table_is_that_of_the_chart() -> None:
    text = PAGE.read_text()
    assert page_with_table(text) == text, "renew: python -m tests.docs.rights"


def test_no_account_may_read_secrets_or_act_as_others() -> None:
    """What the page says above the table."""
    assert re.findall(r"secrets|impersonate|escalate|\bbind\b|\*", rights_table()) == []
