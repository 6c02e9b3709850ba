"""Launches, lead times of nodes, decisions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_NAME = sa.String(255)


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "history_settings",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
        comment="Key of hashes, how names of users are stored, when the service last saw the cluster",
    )
    op.create_table(
        "launches",
        sa.Column("uid", _NAME, primary_key=True),
        sa.Column("asked", sa.BigInteger, nullable=False),
        sa.Column("profile", _NAME),
        sa.Column("choice", sa.Text),
        sa.Column("user_name", _NAME),
        sa.Column("user_is_hashed", sa.Boolean, nullable=False),
        sa.Column("pod", _NAME),
        sa.Column("bound", sa.BigInteger),
        sa.Column("running", sa.BigInteger),
        sa.Column("ended", sa.BigInteger),
        sa.Column("end_is_estimate", sa.Boolean, nullable=False),
        sa.Column("node", _NAME),
        sa.Column("warm", sa.Boolean),
        sa.Column("cause", sa.String(32)),
        sa.Column("reason", sa.Text),
        sa.Column("source", sa.String(32), nullable=False),
    )
    op.create_index("launches_asked", "launches", ["asked", "uid"])
    op.create_index("launches_ended", "launches", ["ended"])
    op.create_index("launches_user_name", "launches", ["user_name"])
    op.create_table(
        "node_lead_times",
        sa.Column("uid", _NAME, primary_key=True),
        sa.Column("node", _NAME, nullable=False),
        sa.Column("kind", _NAME, nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("asked", sa.BigInteger),
        sa.Column("ready", sa.BigInteger),
        sa.Column("slices", sa.BigInteger),
        sa.Column("images", sa.BigInteger),
    )
    op.create_index("node_lead_times_kind", "node_lead_times", ["kind", "created"])
    op.create_table(
        "decisions",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("code", sa.Text, nullable=False),
        sa.Column("node", _NAME, nullable=False),
        sa.Column("profile", sa.Text, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("details", sa.Text, nullable=False, comment="JSON"),
        sa.Column(
            "mentions", sa.Text, nullable=False, comment="Hashed names of pods in the texts, each between spaces"
        ),
        sa.Column("names_are_hashed", sa.Boolean, nullable=False),
    )
    op.create_index("decisions_at", "decisions", ["at"])
