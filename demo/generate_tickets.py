"""Writes the ticket triage data set: `data/train.jsonl` and `data/heldout.jsonl`, the same bytes every time.

A ticket is put together from hand-written wording (`wording/*.toml`); its label follows from the parts by rule:

- `category` is the complaint's: billing, bug, account, shipping, how_to, feature or security.
- `priority` is urgent where many people are stopped, money runs away now, an attacker is inside now or somebody is
  hurt; high where the writer is blocked or has a date within days; low for questions, ideas and what has no hurry;
  normal for the rest.
- `needs_human` is true where the writer threatens to leave or to go to law, is hurt, asks for a person, or has been
  left without an answer.
- `summary` names the complaint in one short line.

The held-out tickets are worded by another file. `python demo/generate_tickets.py --check` says whether the
committed files are what this script writes. Knows nothing of models and tokens.
"""

import json
import random
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
SYSTEM = "Triage this support ticket. Answer with JSON: category, priority, needs_human, summary."
CATEGORIES = ("billing", "bug", "account", "shipping", "how_to", "feature", "security")
PRIORITIES = ("low", "normal", "high", "urgent")
TONES = {"polite": 5, "angry": 4, "terse": 4, "rambling": 2, "foreign": 2}
HUMAN_SHARE = 0.42
ASIDE_SHARE = 0.6
HASTY = ("terse", "angry", "rambling")
MISSPELT_SHARE = 0.4
"""Of the hasty ones."""
LIKENESS_LIMIT = 0.3
"""Two tickets of one file share at most this part of their word triples (Jaccard)."""


@dataclass(frozen=True)
class Ticket:
    text: str
    category: str
    priority: str
    needs_human: bool
    summary: str

    @property
    def answer(self) -> str:
        return json.dumps(
            {
                "category": self.category,
                "priority": self.priority,
                "needs_human": self.needs_human,
                "summary": self.summary,
            }
        )

    @property
    def line(self) -> str:
        roles = {"system": SYSTEM, "user": self.text, "assistant": self.answer}
        messages = [{"role": role, "content": content} for role, content in roles.items()]
        return json.dumps({"messages": messages}, ensure_ascii=False) + "\n"


@dataclass(frozen=True)
class Split:
    name: str
    rows: int
    seed: int

    @property
    def file(self) -> Path:
        return HERE / "data" / f"{self.name}.jsonl"

    @property
    def wording(self) -> dict:
        return tomllib.loads((HERE / "wording" / f"{self.name}.toml").read_text(encoding="utf-8"))


SPLITS = (Split("train", 640, seed=11), Split("heldout", 64, seed=12))


def main() -> int:
    checking = "--check" in sys.argv[1:]
    stale = []
    for split in SPLITS:
        text = "".join(ticket.line for ticket in write_tickets(split))
        if checking:
            stale += [] if split.file.read_text(encoding="utf-8") == text else [split.file.name]
        else:
            split.file.write_text(text, encoding="utf-8")
    if stale:
        print(f"{' and '.join(stale)} differ from what this script writes: run it without --check.")
    return 1 if stale else 0


def write_tickets(split: Split) -> list[Ticket]:
    """`split.rows` tickets, categories in equal parts, none too like another."""
    rng = random.Random(split.seed)
    wording = split.wording
    frames = {category: _frames_of(category, wording, rng) for category in CATEGORIES}
    tickets: list[Ticket] = []
    seen: list[set[tuple[str, ...]]] = []
    while len(tickets) < split.rows:
        category = CATEGORIES[len(tickets) % len(CATEGORIES)]
        ticket = compose(*next(frames[category]), wording, rng)
        triples = word_runs(ticket.text, 3)
        if all(likeness(triples, other) <= LIKENESS_LIMIT for other in seen):
            tickets.append(ticket)
            seen.append(triples)
    rng.shuffle(tickets)
    return tickets


def compose(problem: dict, saying: str, wording: dict, rng: random.Random) -> Ticket:
    """One ticket around one complaint. Each name or number in it is drawn once, but for the signature's."""
    category = problem["category"]
    slots = _draw_slots(wording["slots"], rng)
    clauses = wording["clauses"].get(category, wording["clauses"]["work"])
    level = rng.choice([each for each in problem.get("levels", PRIORITIES) if each in clauses])
    plea = _human_plea(category, wording["human"], rng)
    middle = [saying, rng.choice(clauses[level])]
    if rng.random() < ASIDE_SHARE:
        kind = "goods" if "{item}" in problem["summary"] else "software"
        middle.insert(rng.randrange(3), rng.choice(wording["asides"][kind]))
    if plea:
        middle.insert(rng.choice((1, len(middle))), plea)
    return Ticket(
        text=_tell([part.format_map(slots) for part in middle if part], slots, wording, rng),
        category=category,
        priority="urgent" if level == "hurt" else level,
        needs_human=bool(plea) or level == "hurt",
        summary=problem["summary"].format_map(slots),
    )


def _tell(middle: list[str], slots: dict[str, str], wording: dict, rng: random.Random) -> str:
    """The sentences as one kind of person would write them, greeting and signature with them."""
    tone = rng.choices(list(TONES), weights=list(TONES.values()))[0]
    signer = rng.choice([name for name in wording["slots"]["person"] if name != slots["person"]])
    ends = [rng.choice(wording["tones"][tone][end]) for end in ("open", "close")]
    opening, closing = (end.format_map({**slots, "person": signer}) for end in ends)
    sentences = [_as_sentence(part) for part in middle]
    if tone == "angry" and rng.random() < 0.4:
        loud = rng.randrange(len(sentences))
        sentences[loud] = sentences[loud].upper()
    text = " ".join(part for part in (opening, *sentences, closing) if part)
    return misspell(text, rng) if tone in HASTY and rng.random() < MISSPELT_SHARE else text


def misspell(text: str, rng: random.Random) -> str:
    """A hurried hand: some letters swapped, lost or doubled within lower-case words; sometimes no capitals at all."""
    words = text.split(" ")
    for index, word in enumerate(words):
        if word.isalpha() and word.islower() and len(word) > 4 and rng.random() < 0.12:
            at = rng.randrange(1, len(word) - 2)
            swapped = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
            words[index] = rng.choice((swapped, word[:at] + word[at + 1 :], word[:at] + word[at] + word[at:]))
    text = " ".join(words)
    return text.lower() if rng.random() < 0.4 else text


def word_runs(text: str, length: int) -> set[tuple[str, ...]]:
    """Every `length` words in a row, without case and punctuation."""
    words = re.findall(r"[a-z0-9']+", text.lower())
    return {tuple(words[start : start + length]) for start in range(len(words) - length + 1)}


def likeness(one: set, other: set) -> float:
    """Jaccard: the shared part of all there is."""
    return len(one & other) / max(1, len(one | other))


def _frames_of(category: str, wording: dict, rng: random.Random) -> Iterator[tuple[dict, str]]:
    """Every way of saying every complaint of a category, again and again, each time in a new order."""
    frames = [(each, say) for each in wording["problem"] if each["category"] == category for say in each["say"]]
    while True:
        rng.shuffle(frames)
        yield from frames


def _draw_slots(choices: dict[str, list[str]], rng: random.Random) -> dict[str, str]:
    drawn = {name: rng.choice(values) for name, values in choices.items()}
    amount = rng.choice((rng.randrange(9, 99), rng.randrange(100, 900)))
    return drawn | {
        "money": rng.choice(("${}", "€{}", "£{}", "{} euros", "{} dollars", "${}.50")).format(amount),
        "n": str(rng.randrange(14, 95)),
        "few": rng.choice(("two", "three", "four", "five", "six")),
        "pct": str(rng.choice((10, 15, 20, 25, 30))),
        "order": f"#{rng.randrange(10_000, 99_999)}",
        "time": f"{rng.randrange(1, 13)}:{rng.randrange(0, 60, 5):02}",
    }


def _human_plea(category: str, pleas: dict[str, list[str]], rng: random.Random) -> str:
    """Sometimes a sentence that asks for a person. Nobody goes to law over a question or an idea."""
    if rng.random() >= HUMAN_SHARE:
        return ""
    mild = category in ("how_to", "feature")
    return rng.choice(pleas[rng.choice(("person", "silence") if mild else sorted(pleas))])


def _as_sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else text + "."


if __name__ == "__main__":
    sys.exit(main())
