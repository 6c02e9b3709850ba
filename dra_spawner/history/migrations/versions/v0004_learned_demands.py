"""What scale-ahead has learned, for the next leader."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "learned_demands",
        sa.Column("profile_group", sa.Text, primary_key=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Text, nullable=False, comment="JSON, which only scale-ahead reads"),
    )
