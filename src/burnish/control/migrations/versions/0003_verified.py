"""How what a run left compares with what it trained."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("verified", sa.JSON(), server_default="[]", nullable=False))


def downgrade() -> None:
    op.drop_column("runs", "verified")
