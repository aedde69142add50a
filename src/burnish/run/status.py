"""The statuses of a run and which may follow which. The only place that table is written."""

from enum import StrEnum


class RunStatus(StrEnum):
    PENDING = "PENDING"
    """Accepted; waits for a slot."""
    CREATING = "CREATING"
    """A slot is taken and the trainer is being started; nothing has been trained."""
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    """Asked to stop; the trainer saves a checkpoint and ends."""
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"

    @property
    def is_over(self) -> bool:
        return not _NEXT[self]

    def may_become(self, other: "RunStatus") -> bool:
        return other in _NEXT[self]


_NEXT: dict[RunStatus, frozenset[RunStatus]] = {
    # PENDING after CREATING: the attempt was lost and the run waits for its next one.
    RunStatus.PENDING: frozenset({RunStatus.CREATING, RunStatus.STOPPED, RunStatus.FAILED}),
    RunStatus.CREATING: frozenset(
        {
            RunStatus.PENDING,
            RunStatus.RUNNING,
            RunStatus.STOPPING,
            RunStatus.COMPLETED,
            RunStatus.FAILED,
            RunStatus.STOPPED,
        }
    ),
    RunStatus.RUNNING: frozenset(
        {
            RunStatus.PENDING,
            RunStatus.STOPPING,
            RunStatus.COMPLETED,
            RunStatus.FAILED,
            RunStatus.STOPPED,
        }
    ),
    RunStatus.STOPPING: frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.STOPPED}),
    RunStatus.COMPLETED: frozenset(),
    RunStatus.FAILED: frozenset(),
    RunStatus.STOPPED: frozenset(),
}
