"""What a run used: real tokens and seconds, each step once, whichever attempt did it last. Knows no money."""

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from burnish.control.tables import StepRow
from burnish.wire import UsageView


def sum_usage(session: Session, run_id: str) -> UsageView:
    """Summed over the steps as they are stored. A run's row keeps the answer, so that a list need not ask again."""
    tokens, trained_tokens, seconds = session.execute(
        select(func.sum(StepRow.tokens), func.sum(StepRow.trained_tokens), func.sum(StepRow.seconds)).where(
            StepRow.run_id == run_id
        )
    ).one()
    return UsageView(tokens=tokens or 0, trained_tokens=trained_tokens or 0, train_seconds=seconds or 0.0)
