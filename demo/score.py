"""How well a model triages tickets that it has not seen, by the answers it writes itself.

    python demo/score.py MODEL_FOLDER [--rows 64] [--json FILE]

Knows models; what a good answer is, `judge` knows.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from burnish.train.generate import ChatModel
from judge import FIELDS, Row, Scores, add_up, read_rows

LONGEST_ANSWER = 72
"""Tokens. The longest wanted answer has 50."""


def score(model_directory: Path, rows: Sequence[Row]) -> Scores:
    """Let the model answer every row's ticket, always its likeliest token, and judge each answer."""
    model = ChatModel.load(model_directory)
    replies = model.reply_all([row[:-1] for row in rows], max_tokens=LONGEST_ANSWER)
    return add_up(replies, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description="Score a model on the held-out tickets.")
    parser.add_argument("model", type=Path, help="a Hugging Face folder")
    parser.add_argument("--rows", type=int, help="only the first so many")
    parser.add_argument("--json", type=Path, help="write the scores and the replies here")
    wish = parser.parse_args()
    scores = score(wish.model, read_rows(limit=wish.rows))
    if wish.json:
        wish.json.write_text(json.dumps(asdict(scores), indent=2))
    print(f"{scores.valid} of {scores.rows} answers are valid JSON with the four fields.")
    for fault, count in sorted(scores.faults.items()):
        print(f"  {fault}: {count}")
    for field in FIELDS:
        print(f"{field} right: {scores.right_share(field):.0%}")


if __name__ == "__main__":
    main()
