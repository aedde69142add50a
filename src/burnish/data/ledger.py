"""What became of every row that was read: used, cut, or dropped and why.

The one place that counts, so that the figures a user sees add up. Knows no file format and no token.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from burnish.data.private_text import cover_private
from burnish.errors import DataError

SHOWN_BAD_ROWS = 10


class BadRow(NamedTuple):
    """A row that cannot be used."""

    where: str
    """`train.jsonl:17`"""
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


class RowFault(DataError):
    """Why a row cannot be used, without its place: who knows that turns it into a `BadRow`."""


@dataclass
class Ledger:
    """Counts of rows. `read == used + sum(dropped.values())`, always."""

    read: int = 0
    used: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    """By reason."""
    bad_rows: list[BadRow] = field(default_factory=list)
    """The first few; `dropped["bad row"]` is the total."""
    cut_short: bool = False
    """Only the first rows were wanted, and there may be more."""

    def use(self) -> None:
        self.read += 1
        self.used += 1

    def drop(self, reason: str) -> None:
        self.read += 1
        self.dropped[reason] += 1

    def drop_bad(self, row: BadRow) -> None:
        self.drop("bad row")
        if len(self.bad_rows) < SHOWN_BAD_ROWS:
            # A reason may quote the row, and is told to people, logs and databases.
            self.bad_rows.append(BadRow(row.where, cover_private(row.reason)))

    def recall(self, row: BadRow) -> None:
        """A row that was counted as used turns out to be bad."""
        self.used -= 1
        self.read -= 1
        self.drop_bad(row)

    def unuse(self, count: int, reason: str) -> None:
        """Move rows that were counted as used to a reason for dropping them."""
        if count:
            self.used -= count
            self.dropped[reason] += count

    def check(self) -> None:
        assert self.read == self.used + self.dropped.total(), self

    def _by_reason(self) -> dict[str, list[str]]:
        """Rows that share a fault are told of together."""
        told: dict[str, list[str]] = {}
        for row in self.bad_rows:
            told.setdefault(row.reason, []).append(row.where)
        return told

    def bad_rows_error(self) -> DataError:
        """The refusal: the first ten by name, and the total."""
        total = self.dropped["bad row"]
        shown = "; ".join(f"{', '.join(places)}: {reason}" for reason, places in self._by_reason().items())
        more = f"; and {total - len(self.bad_rows)} more" if total > len(self.bad_rows) else ""
        return DataError(
            f"{total} of {self.read} rows cannot be used: {shown}{more}.",
            hint=self._way_out(total),
        )

    def _way_out(self, total: int) -> str:
        if total < self.read:
            return 'Correct these rows, or set on_bad_row = "skip" under [data] to train on the rest.'
        if all(row.reason.startswith("not valid JSON") for row in self.bad_rows):
            return "Each line of a .jsonl file is a row of its own, in JSON; a .json file may hold one list of rows."
        return "Correct these rows; docs/data.md tells what a row may hold."
