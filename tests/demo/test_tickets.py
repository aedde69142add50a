"""The ticket data set: as its script writes it, varied, balanced, and held-out where it says so."""

import json
from collections import Counter
from itertools import combinations

import pytest

import generate_tickets
from generate_tickets import CATEGORIES, LIKENESS_LIMIT, PRIORITIES, SPLITS, likeness, word_runs

TRAIN, HELDOUT = SPLITS


def rows_of(split):
    return [json.loads(line)["messages"] for line in split.file.read_text(encoding="utf-8").splitlines()]


def tickets_of(split):
    return [messages[1]["content"] for messages in rows_of(split)]


def answers_of(split):
    return [json.loads(messages[2]["content"]) for messages in rows_of(split)]


def test_the_committed_files_are_what_the_script_writes(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["generate_tickets.py", "--check"])
    assert generate_tickets.main() == 0, capsys.readouterr().out


def test_there_are_enough_rows():
    assert len(rows_of(TRAIN)) >= 600
    assert len(rows_of(HELDOUT)) >= 60


@pytest.mark.parametrize("split", SPLITS, ids=lambda split: split.name)
def test_every_row_asks_one_ticket_and_answers_with_the_four_fields(split):
    for messages in rows_of(split):
        assert [message["role"] for message in messages] == ["system", "user", "assistant"]
        answer = json.loads(messages[2]["content"])
        assert list(answer) == ["category", "priority", "needs_human", "summary"]
        assert answer["category"] in CATEGORIES
        assert answer["priority"] in PRIORITIES
        assert isinstance(answer["needs_human"], bool)
        assert 2 <= len(answer["summary"].split()) <= 12


@pytest.mark.parametrize("split", SPLITS, ids=lambda split: split.name)
def test_no_answer_is_rare(split):
    answers = answers_of(split)
    categories = Counter(answer["category"] for answer in answers)
    priorities = Counter(answer["priority"] for answer in answers)
    assert set(categories) == set(CATEGORIES)
    assert max(categories.values()) - min(categories.values()) <= 1
    assert set(priorities) == set(PRIORITIES)
    assert min(priorities.values()) >= len(answers) / 10
    assert 0.3 < sum(answer["needs_human"] for answer in answers) / len(answers) < 0.6


@pytest.mark.parametrize("split", SPLITS, ids=lambda split: split.name)
def test_no_ticket_is_nearly_another(split):
    triples = [word_runs(ticket, 3) for ticket in tickets_of(split)]
    assert max(likeness(one, other) for one, other in combinations(triples, 2)) <= LIKENESS_LIMIT


def test_no_five_words_in_a_row_of_a_held_out_ticket_occur_in_training():
    """Case and punctuation aside, whole ticket, greeting and signature with it; no exceptions."""
    trained = set().union(*(word_runs(ticket, 5) for ticket in tickets_of(TRAIN)))
    for ticket in tickets_of(HELDOUT):
        assert not word_runs(ticket, 5) & trained, ticket


def test_held_out_tickets_are_about_other_products():
    def products(split):
        return {name.lower() for kind in ("app", "item") for name in split.wording["slots"][kind]}

    assert not products(HELDOUT) & products(TRAIN)


@pytest.mark.parametrize("split", SPLITS, ids=lambda split: split.name)
def test_a_summary_names_only_products_of_its_ticket(split):
    products = split.wording["slots"]["app"] + split.wording["slots"]["item"]
    for ticket, answer in zip(tickets_of(split), answers_of(split), strict=True):
        named = [product for product in products if product in answer["summary"]]
        assert named, answer["summary"]
        for product in named:
            assert product.lower() in ticket.lower() or _spelt_nearly(product, ticket)


def test_lengths_are_those_of_real_tickets():
    lengths = sorted(len(ticket.split()) for ticket in tickets_of(TRAIN))
    tenth = len(lengths) // 10
    assert lengths[tenth] >= 18
    assert lengths[-tenth] <= 90


def _spelt_nearly(product: str, ticket: str) -> bool:
    """A hurried hand may have misspelt a word of it; the others stand."""
    words = product.lower().split()
    return any(word in ticket.lower() for word in words)
