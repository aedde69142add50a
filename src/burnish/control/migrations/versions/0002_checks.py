"""What a check said of each run, and the hash of what its steps were given."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in ("runs", "steps"):
        op.add_column(table, sa.Column("stream", sa.String(length=32), server_default="", nullable=False))
    op.create_table(
        "reports",
        sa.Column("run_id", sa.String(length=20), nullable=False),
        sa.Column("report", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_reports_run_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", name="pk_reports"),
    )


def downgrade() -> None:
    op.drop_table("reports")
    for table in ("steps", "runs"):
        op.drop_column(table, "stream")
