"""The devices that a server held."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the column."""
    op.add_column("launches", sa.Column("devices", sa.Text, comment="JSON: whole devices by driver"))
