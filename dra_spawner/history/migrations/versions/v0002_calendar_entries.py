"""Calendar entries that the API adds."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "calendar_entries",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("entry", sa.Text, nullable=False, comment="JSON, as in the setting calendar_entries"),
    )
