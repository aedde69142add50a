"""The judgement of single answers and their sum; no model runs here."""

import json

import pytest

from generate_tickets import CATEGORIES
from judge import FIELDS, add_up, judge, read_rows, word_f1

WANTED = {"category": "bug", "priority": "high", "needs_human": False, "summary": "Vaultic freezes"}


def reply(**changes) -> str:
    return json.dumps(WANTED | changes)


def test_the_wanted_answer_has_every_field_right():
    verdict = judge(json.dumps(WANTED), WANTED)
    assert verdict.fault == ""
    assert verdict.right == FIELDS
    assert verdict.summary_likeness == 1


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "not JSON"),
        ("I am sorry to hear that.", "not JSON"),
        (reply()[:-1], "not JSON"),
        (reply() + " I hope this helps!", "not JSON"),
        ("```json\n" + reply() + "\n```", "not JSON"),
        (f"[{reply()}]", "not an object"),
        ("true", "not an object"),
        ("{}", "other keys"),
        (reply(mood="angry"), "other keys"),
        (json.dumps({key: WANTED[key] for key in FIELDS}), "other keys"),
        (reply(category="Bug"), "unknown category"),
        (reply(category=["bug"]), "unknown category"),
        (reply(priority="critical"), "unknown priority"),
        (reply(priority=None), "unknown priority"),
        (reply(needs_human="false"), "needs_human is no yes or no"),
        (reply(needs_human=0), "needs_human is no yes or no"),
        (reply(summary="  "), "no summary"),
        (reply(summary=7), "no summary"),
    ],
)
def test_an_answer_of_another_form_is_named_for_its_fault_and_has_nothing_right(text, fault):
    verdict = judge(text, WANTED)
    assert verdict.fault == fault
    assert verdict.right == ()
    assert verdict.summary_likeness == 0


def test_the_order_of_keys_and_white_space_do_not_matter():
    text = "\n" + json.dumps(dict(reversed(WANTED.items())), indent=2) + "\n"
    assert judge(text, WANTED) == judge(json.dumps(WANTED), WANTED)


@pytest.mark.parametrize(
    ("field", "other"), [("category", "billing"), ("priority", "low"), ("needs_human", True)], ids=FIELDS
)
def test_one_wrong_field_leaves_the_others_right(field, other):
    verdict = judge(reply(**{field: other}), WANTED)
    assert verdict.fault == ""
    assert set(verdict.right) == set(FIELDS) - {field}


def test_likeness_of_summaries_counts_shared_words():
    assert word_f1("Vaultic freezes", "vaultic FREEZES") == 1
    assert word_f1("Vaultic freezes", "Refund late") == 0
    assert word_f1("a b", "b c") == pytest.approx(1 / 2)
    assert word_f1("a a a", "a") == pytest.approx(1 / 2)
    assert word_f1("", "") == 0


def test_scores_count_every_row_once():
    rows = read_rows(limit=3)
    wanted = [row[-1]["content"] for row in rows]
    first = json.loads(wanted[0])
    other = next(each for each in CATEGORIES if each != first["category"])
    scores = add_up([json.dumps(first | {"category": other}), wanted[1], "Sorry, no."], rows)
    assert (scores.rows, scores.valid) == (3, 2)
    assert scores.right == {"category": 1, "priority": 2, "needs_human": 2}
    assert scores.faults == {"not JSON": 1}
    assert scores.summary_likeness == pytest.approx(2 / 3)
    assert scores.right_share("category") == pytest.approx(1 / 3)


def test_the_wanted_answers_score_full_marks():
    rows = read_rows()
    scores = add_up([row[-1]["content"] for row in rows], rows)
    assert scores.valid_share == 1
    assert all(scores.right_share(field) == 1 for field in FIELDS)
