"""Thoughts of earlier turns: learnt in samples of their own, or lost and counted; never masked askew."""

import pytest
from chat_folders import QWEN3

from burnish.data.conversations import Message, RowFault, read_conversation
from burnish.data.formats import Record
from burnish.data.render import ChatRenderer, Sample, load_chat_renderer
from burnish.errors import DataError
from burnish.spec.train import LossMask, Renderer

THINKS = (
    ("user", "Pick a number under ten."),
    ("assistant", "<think>\nseven feels fine\n</think>\n\nSeven."),
    ("user", "Double it."),
    ("assistant", "<think>\n7+7\n</think>\n\nFourteen."),
)


def conversation(*turns: tuple[str, str]):
    return read_conversation(
        Record({"messages": [{"role": role, "content": content} for role, content in turns]}, "train.jsonl", 1)
    )


def trained(sample: Sample) -> str:
    return "".join(piece.text for piece in sample.pieces if piece.trained)


def whole(sample: Sample) -> str:
    return "".join(piece.text for piece in sample.pieces)


@pytest.fixture(params=["qwen3", "auto"])
def renderer(request: pytest.FixtureRequest, bpe_folder) -> ChatRenderer:
    return load_chat_renderer(bpe_folder(QWEN3), Renderer(name=request.param))


def test_each_turn_with_lost_thoughts_is_a_sample(renderer: ChatRenderer) -> None:
    first, second = renderer.write(conversation(*THINKS), LossMask())
    assert trained(first) == "<think>\nseven feels fine\n</think>\n\nSeven.<|im_end|>"
    assert trained(second) == "<think>\n7+7\n</think>\n\nFourteen.<|im_end|>"
    assert "seven feels fine" not in whole(second) and "Double it." not in whole(first)
    assert (first.thoughts_lost, second.thoughts_lost) == (0, 0)


def test_dropping_history_is_counted(renderer: ChatRenderer) -> None:
    (only,) = renderer.write(conversation(*THINKS), LossMask(), history="drop")
    assert trained(only) == "Seven.<|im_end|><think>\n7+7\n</think>\n\nFourteen.<|im_end|>"
    assert only.thoughts_lost == 1


def test_without_thoughts_one_sample_is_enough(renderer: ChatRenderer) -> None:
    turns = (("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d"))
    (only,) = renderer.write(conversation(*turns), LossMask())
    assert "b<|im_end|>" in trained(only) and "d<|im_end|>" in trained(only)


def test_turns_that_are_not_trained_ask_for_no_sample(renderer: ChatRenderer) -> None:
    turns: list[dict[str, object]] = [{"role": role, "content": content} for role, content in THINKS]
    turns[1]["weight"] = 0
    row = {"messages": turns}
    (only,) = renderer.write(read_conversation(Record(row, "train.jsonl", 1)), LossMask())
    assert "Seven." not in trained(only) and "Fourteen." in trained(only)


def test_words_of_other_roles_are_trained_once(renderer: ChatRenderer) -> None:
    samples = renderer.write(conversation(*THINKS), LossMask(user=True))
    assert "".join(map(trained, samples)).count("Pick a number under ten.") == 1
    assert "".join(map(trained, samples)).count("Double it.") == 1


def test_thoughts_between_calls_of_one_answer_share_a_sample(bpe_folder) -> None:
    renderer = load_chat_renderer(bpe_folder(QWEN3), Renderer(name="qwen3"))
    call = [{"function": {"name": "look", "arguments": {}}}]
    turns = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b", "reasoning_content": "early"},
        {"role": "user", "content": "c"},
        {"role": "assistant", "content": "", "reasoning_content": "let me look", "tool_calls": call},
        {"role": "tool", "content": "found"},
        {"role": "assistant", "content": "d", "reasoning_content": "there"},
    ]
    samples = renderer.write(read_conversation(Record({"messages": turns}, "train.jsonl", 1)), LossMask())
    assert len(samples) == 2
    assert "early" in trained(samples[0])
    assert "let me look" in trained(samples[1]) and "there" in trained(samples[1])


def test_a_message_keeps_no_history(renderer: ChatRenderer) -> None:
    assert renderer.prompt_ids([Message("user", "a")])


@pytest.mark.parametrize("asked", [(), (("user", "Why?"),)])
def test_words_of_others_after_the_last_answer_are_trained_once(renderer: ChatRenderer, asked) -> None:
    turns = conversation(*THINKS, *asked, ("system", "Be brief."), ("user", "And doubled?"))
    samples = renderer.write(turns, LossMask(user=True, system=True))
    said = "".join(map(trained, samples))
    for message in turns.messages:
        assert said.count(message.content.split("</think>")[-1].strip()) == 1
    assert trained(samples[-1]).endswith("And doubled?")


def test_thoughts_that_nobody_asked_for_are_refused_or_counted(renderer: ChatRenderer) -> None:
    """The template writes thoughts after the last question alone, and there is none."""
    turns = conversation(("system", "Go on."), ("assistant", "<think>\nhm\n</think>\n\nSo."))
    with pytest.raises(RowFault, match=r"messages\[1\] has thoughts .*even of the last turn"):
        renderer.write(turns, LossMask())
    (dropped,) = renderer.write(turns, LossMask(), history="drop")
    assert dropped.thoughts_lost == 1 and "hm" not in whole(dropped)


def test_only_the_assistant_has_thoughts() -> None:
    turns = [{"role": "user", "content": "a", "reasoning": "hm"}, {"role": "assistant", "content": "b"}]
    with pytest.raises(DataError, match=r"messages\[0\] is a turn of user and has thoughts"):
        read_conversation(Record({"messages": turns}, "train.jsonl", 1))
