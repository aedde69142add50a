"""Judges what a model wrote as a triage of a ticket: is it a valid answer, and which fields are right?

Knows the answer's four fields; knows nothing of models.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from generate_tickets import CATEGORIES, HERE, PRIORITIES

HELDOUT = HERE / "data" / "heldout.jsonl"
FIELDS = ("category", "priority", "needs_human")
"""What is right or wrong; a summary is only like the wanted one, or less so."""

Row = list[dict[str, str]]
"""System, user, and the wanted assistant message."""


@dataclass(frozen=True)
class Verdict:
    fault: str
    """Why the reply is no valid answer; empty where it is one."""
    right: tuple[str, ...] = ()
    summary_likeness: float = 0.0
    """F1 of the words, against the wanted summary."""


@dataclass(frozen=True)
class Scores:
    rows: int
    valid: int
    right: dict[str, int]
    """Rows with this field right. An invalid answer has no field right."""
    summary_likeness: float
    """Mean over all rows; 0 for an invalid answer."""
    faults: dict[str, int]
    replies: list[str]

    @property
    def valid_share(self) -> float:
        return self.valid / self.rows

    def right_share(self, field: str) -> float:
        return self.right[field] / self.rows


def add_up(replies: Sequence[str], rows: Sequence[Row]) -> Scores:
    verdicts = [judge(reply, json.loads(row[-1]["content"])) for reply, row in zip(replies, rows, strict=True)]
    return Scores(
        rows=len(rows),
        valid=sum(not verdict.fault for verdict in verdicts),
        right={field: sum(field in verdict.right for verdict in verdicts) for field in FIELDS},
        summary_likeness=sum(verdict.summary_likeness for verdict in verdicts) / len(rows),
        faults=dict(Counter(verdict.fault for verdict in verdicts if verdict.fault)),
        replies=list(replies),
    )


def judge(reply: str, wanted: dict[str, Any]) -> Verdict:
    """A valid answer is one JSON object and nothing else, with exactly the four keys and allowed values."""
    try:
        answer = json.loads(reply)
    except json.JSONDecodeError:
        return Verdict("not JSON")
    fault = find_fault(answer)
    if fault:
        return Verdict(fault)
    right = tuple(field for field in FIELDS if answer[field] == wanted[field])
    return Verdict("", right, word_f1(answer["summary"], wanted["summary"]))


def find_fault(answer: Any) -> str:
    """What is wrong with a parsed answer's form; empty where nothing is."""
    if not isinstance(answer, dict):
        return "not an object"
    if set(answer) != {*FIELDS, "summary"}:
        return "other keys"
    if answer["category"] not in CATEGORIES:
        return "unknown category"
    if answer["priority"] not in PRIORITIES:
        return "unknown priority"
    if not isinstance(answer["needs_human"], bool):
        return "needs_human is no yes or no"
    if not isinstance(answer["summary"], str) or not answer["summary"].strip():
        return "no summary"
    return ""


def word_f1(one: str, other: str) -> float:
    """1 where both have the same words, 0 where they share none."""
    words, others = Counter(one.lower().split()), Counter(other.lower().split())
    return 2 * (words & others).total() / max(1, words.total() + others.total())


def read_rows(path: Path = HELDOUT, *, limit: int | None = None) -> list[Row]:
    lines = path.read_text(encoding="utf-8").splitlines()[:limit]
    return [json.loads(line)["messages"] for line in lines]
