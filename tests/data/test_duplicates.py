"""Rows that repeat others: to the letter, nearly, or not; in how many comparisons; the same in every process."""

import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from datasketch import LeanMinHash, MinHashLSH

from burnish.data.audit import audit_rows
from burnish.data.conversations import Conversation, Image, Message
from burnish.data.duplicates import NearIndex, sketch
from burnish.data.tools import ToolCall

WORDS = [f"w{number:x}{number * 7919 % 997:x}" for number in range(3000)]


def said(text: str, where: str, *, system: str = "") -> Conversation:
    turns = (Message("user", "Tell me."), Message("assistant", text))
    return Conversation((Message("system", system), *turns) if system else turns, where)


def story(seed: int, words: int = 120) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=words))


def test_a_row_to_the_letter_is_found_once_and_not_as_nearly_the_same():
    rows = [said(story(number % 4), f"x:{number}") for number in range(12)]
    audit = audit_rows(rows)
    assert (audit.duplicates.rows, audit.duplicates.groups) == (8, 4)
    assert [(pair.row, pair.earlier) for pair in audit.duplicates.first[:2]] == [("x:4", "x:0"), ("x:5", "x:1")]
    assert audit.near_duplicates is not None and audit.near_duplicates.rows == 0


@pytest.mark.parametrize(("changed", "found"), [(0, True), (2, True), (8, True), (60, False), (120, False)])
def test_a_row_with_a_few_other_words_is_nearly_the_same(changed, found):
    words = story(1).split()
    other = ["other"] * changed + words[changed:]
    rows = [said(" ".join(words), "x:1"), said("  " + " ".join(other).upper() + "\n", "x:2")]
    near = audit_rows(rows).near_duplicates
    assert near is not None
    assert [(pair.row, pair.earlier) for pair in near.first] == ([("x:2", "x:1")] if found else [])


def test_a_system_turn_that_all_rows_share_makes_them_no_duplicates():
    rows = [said(story(number, 30), f"x:{number}", system=story(99, 500)) for number in range(20)]
    near = audit_rows(rows).near_duplicates
    assert near is not None and near.rows == 0


def test_one_question_of_many_pictures_or_one_with_another_call_is_no_repeat():
    pictures = [Image(0, 8, 8, source) for source in (b"one", b"two", Path("three.png"))]
    asked = [Message("user", "What does this picture show?", images=(picture,)) for picture in pictures]
    calls = [ToolCall("search", {"query": story(number, 20)}) for number in range(2)]
    rows = [Conversation((each, Message("assistant", "A dog.")), f"x:{place}") for place, each in enumerate(asked)]
    rows += [Conversation((Message("assistant", "", tool_calls=(call,)),), f"y:{call.arguments}") for call in calls]
    audit = audit_rows([*rows, replace(rows[0], where="x:9")])
    assert audit.near_duplicates is not None and audit.near_duplicates.rows == 0
    assert [(pair.row, pair.earlier) for pair in audit.duplicates.first] == [("x:9", "x:0")]


@pytest.mark.parametrize("alike", [0.0, 0.5, 1.0])
def test_comparisons_grow_with_the_rows_and_not_with_their_pairs(alike):
    """Ten thousand rows, of which none, half or all are variants of one."""
    index, compared, at = NearIndex(), [], (5_000, 10_000)
    base = story(0, 40).split()
    draw = random.Random(7)
    for number in range(1, at[-1] + 1):
        words = [*base] if draw.random() < alike else draw.choices(WORDS, k=40)
        words[number % 40] = "changed"
        drawn = sketch(" ".join(words))
        assert drawn is not None
        if index.find(drawn) is None:
            index.keep(drawn, str(number))
        if number in at:
            compared.append(index.comparisons)
    assert compared[1] <= 4 * at[1]
    assert compared[1] - compared[0] <= 1.5 * compared[0] + 100


def test_rows_written_around_one_long_text_are_not_each_held_against_all():
    """Each like each other by 0.7, so that most pairs share a band and none is found."""
    index, compared, base = NearIndex(), [], story(0, 70)
    for number in range(2_000):
        drawn = sketch(f"{base} {story(number + 1, 18)}")
        assert drawn is not None
        index.find(drawn)
        index.keep(drawn, str(number))
        compared.append(index.comparisons)
    assert compared[-1] <= 16 * 2_000
    assert compared[-1] - compared[999] <= 1.5 * compared[999]


@pytest.mark.parametrize("shared", [0, 40, 60])
def test_as_many_pairs_are_found_as_by_all_rows_of_a_band(shared):
    """datasketch is the oracle: it holds a row against all that share a band."""
    draw, index, oracle = random.Random(shared), NearIndex(), MinHashLSH(num_perm=128, params=(16, 8))
    base, sketches, found = draw.choices(WORDS, k=shared), {}, [0, 0]
    for number in range(200):
        own = draw.choices(WORDS, k=40)
        for words in (own, ["changed", *own[1:20], "changed", *own[21:]]):
            drawn = sketch(" ".join(base + words))
            assert drawn is not None
            wrapped = LeanMinHash(seed=1, hashvalues=drawn, scheme="affine64")
            places = [str(place) for place in oracle.query(wrapped)]
            found[0] += index.find(drawn) is not None
            found[1] += any(np.mean(sketches[place] == drawn) >= 0.8 for place in places)
            index.keep(drawn, str(number))
            sketches[str(len(sketches))] = drawn
            oracle.insert(str(len(sketches) - 1), wrapped)
    assert found[1] >= 150
    assert found[0] >= 0.99 * found[1]


def test_what_takes_too_long_is_given_up_and_said():
    audit = audit_rows([said(story(number), f"x:{number}") for number in range(5)], near_seconds=0.0)
    assert audit.near_duplicates is None and audit.near_rows == 0


def test_a_sketch_is_the_same_in_every_process():
    code = "from burnish.data.duplicates import sketch; print(sketch('a lamp that burns oil, ' * 9).tolist())"
    told = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert told[0] == told[1] != ""
