"""Loss masks as public bug reports show them going wrong, each with the right outcome. Counts are byte-ChatML's."""

import numpy as np
import pytest

from burnish.data.loader import IGNORED, shift
from burnish.data.store import Stored


def chat(*turns: str, **more) -> dict:
    """`chat("user says", "assistant answers", ...)`."""
    roles = ("user", "assistant")
    return {"messages": [{"role": roles[place % 2], "content": text} for place, text in enumerate(turns)], **more}


def tool(name: str, **properties: str) -> dict:
    fields = {key: {"type": kind} for key, kind in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": list(fields)}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}


def call(name: str, arguments) -> list[dict]:
    return [{"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}]


def test_a_template_without_markers_trains_each_answer_and_its_end(bench) -> None:
    first, second = bench.show(
        [chat("Name the river in the poem.", "The Orinlee."), chat("And its colour?", "Slate green.")]
    )
    assert (first.trained, sum(first.loss_mask), len(first.token_ids)) == ("The Orinlee.<|im_end|>", 13, 60)
    assert (second.trained, sum(second.loss_mask), len(second.token_ids)) == ("Slate green.<|im_end|>", 13, 48)


def test_one_end_marker_is_trained_though_padding_has_its_id(bench) -> None:
    rows = [chat("Short?", "Yes."), chat("Tell me about lamps.", "Lamps burn oil, gas or current, and some burn none.")]
    shown = bench.show(rows)
    assert [sum(each.loss_mask) for each in shown] == [
        5,
        len("Lamps burn oil, gas or current, and some burn none.") + 1,
    ]
    assert all(each.trained.count("<|im_end|>") == 1 for each in shown)
    batch = shift([Stored(np.array(each.token_ids, np.uint32), np.array(each.loss_mask, np.uint8)) for each in shown])
    assert batch.trained_tokens == sum(sum(each.loss_mask) for each in shown)  # there is no padding to train


@pytest.mark.parametrize(("asked", "letter"), [("Left or right?", "L"), ("Up or down?", "D")])
def test_the_first_token_of_an_answer_is_trained(bench, asked: str, letter: str) -> None:
    (shown,) = bench.show([chat(asked, letter)])
    assert (shown.trained, sum(shown.loss_mask)) == (f"{letter}<|im_end|>", 2)
    batch = shift([Stored(np.array(shown.token_ids, np.uint32), np.array(shown.loss_mask, np.uint8))])
    prompt = f"<|im_start|>user\n{asked}<|im_end|>\n<|im_start|>assistant\n"
    prompt_tokens = len(prompt) - len("<|im_start|>") * 2 - len("<|im_end|>") + 3
    assert int(np.flatnonzero(batch.targets_T != IGNORED)[0]) == prompt_tokens - 1


THINKS = chat(
    "Pick a number under ten.",
    "<think>\nseven feels fine\n</think>\n\nSeven.",
    "Double it.",
    "<think>\n7+7\n</think>\n\nFourteen.",
)


def test_thoughts_of_earlier_turns_are_learnt_in_a_sample_of_their_own(bench) -> None:
    first, second = bench.show([THINKS], renderer="qwen3")
    assert first.trained == "<think>\nseven feels fine\n</think>\n\nSeven.<|im_end|>"
    assert second.trained == "<think>\n7+7\n</think>\n\nFourteen.<|im_end|>"
    assert "seven feels fine" not in second.whole


def test_dropped_thoughts_leave_no_shifted_mask(bench) -> None:
    facts = bench.prepare([THINKS], renderer="qwen3", history_thinking="drop").facts
    (shown,) = bench.show([THINKS], renderer="qwen3", history_thinking="drop")
    assert shown.trained_spans == ("Seven.<|im_end|>", "<think>\n7+7\n</think>\n\nFourteen.<|im_end|>")
    assert (facts.samples, facts.thoughts_lost) == (1, 1)


def test_reasoning_in_a_field_is_rendered_once_and_trained(bench) -> None:
    row = chat("What is 9 times 3?", "27.")
    row["messages"][1]["reasoning_content"] = "nine threes, 27"
    (shown,) = bench.show([row], renderer="qwen3")
    assert shown.trained == "<think>\nnine threes, 27\n</think>\n\n27.<|im_end|>"
    assert shown.whole.count("nine threes, 27") == shown.whole.count("</think>") == 1


def test_a_family_without_reasoning_refuses_the_field(bench) -> None:
    row = chat("What is 9 times 3?", "27.")
    row["messages"][1]["reasoning_content"] = "nine threes, 27"
    for renderer in ("auto", "chatml", "smollm"):
        assert "reasoning_content" in bench.refusal([row], renderer=renderer).message


@pytest.mark.parametrize("renderer", ["auto", "qwen3"])
def test_null_content_and_null_calls_are_nothing(bench, renderer: str) -> None:
    bus = {
        "tools": [tool("find_bus", stop="string")],
        "messages": [
            {"role": "user", "content": "Next bus from Tarn Street?"},
            {"role": "assistant", "content": None, "tool_calls": call("find_bus", '{"stop": "Tarn Street"}')},
            {"role": "tool", "tool_call_id": "c1", "content": '{"due_min": 4}'},
            {"role": "assistant", "content": "Four minutes.", "tool_calls": None},
        ],
    }
    thanks, again = chat("Thanks.", "Any time."), chat("Again?", "Sure.")
    thanks["messages"][1]["tool_calls"], again["messages"][1]["tool_calls"] = None, []
    first, second, third = bench.show([bus, thanks, again], renderer=renderer)
    assert all(word in first.trained for word in ("find_bus", "Tarn Street", "Four minutes."))
    assert "due_min" not in first.trained and "Next bus" not in first.trained and "None" not in first.whole
    assert "Any time." in second.trained and "Sure." in third.trained
    assert "tool_call" not in second.whole + third.whole and "None" not in second.whole


@pytest.mark.parametrize("renderer", ["auto", "qwen3"])
def test_arguments_as_text_and_as_object_are_the_same_tokens(bench, renderer: str) -> None:
    rows = [
        {
            "tools": [tool("set_dial", level="integer")],
            "messages": [
                {"role": "user", "content": "Dial to 3."},
                {"role": "assistant", "content": None, "tool_calls": call("set_dial", arguments)},
            ],
        }
        for arguments in ('{"level": 3}', {"level": 3})
    ]
    first, second = bench.show(rows, renderer=renderer)
    assert first.token_ids == second.token_ids and first.loss_mask == second.loss_mask
    assert '"arguments": {"level": 3}' in first.trained
    assert '\\"level\\"' not in first.whole and "{'level'" not in first.whole


def test_the_boundary_of_prompt_and_completion_does_not_move(bench) -> None:
    pairs = [("Q: colour of the door?\nA:", " red"), ("call store.", "open()"), ("abc", "def")]
    shown = bench.show([{"prompt": prompt, "completion": completion} for prompt, completion in pairs])
    assert [each.trained for each in shown] == [f"{completion}<|im_end|>" for _, completion in pairs]
    assert sum(sum(each.loss_mask) for each in shown) == 16


def test_a_system_turn_is_context_once_and_never_made_up(bench) -> None:
    system = {"role": "system", "content": "Answer like a lighthouse keeper."}
    plain = chat("Weather?", "Fog to the west.")
    first, second = bench.show([{"messages": [system, *plain["messages"]]}, plain])
    assert first.trained == second.trained == "Fog to the west.<|im_end|>"
    assert sum(first.loss_mask) == sum(second.loss_mask) == 17
    assert (len(first.token_ids), len(second.token_ids)) == (87, 45)
    assert first.whole.count("lighthouse keeper") == 1 and "system" not in second.whole


def test_an_empty_answer_trains_its_end_alone(bench) -> None:
    shown = bench.show(
        [chat("Say nothing.", ""), chat("Say a space.", " "), chat("Then speak.", "", "Now.", "Spoken.")]
    )
    assert [sum(each.loss_mask) for each in shown] == [1, 2, 9]
    assert shown[2].trained_spans == ("<|im_end|>", "Spoken.<|im_end|>")


def test_a_mask_that_trains_nobody_is_refused(bench) -> None:
    mask = {"assistant": False, "user": True}
    row = {"messages": [{"role": "user", "content": ""}, {"role": "assistant", "content": "b"}]}
    assert (
        "no trained token"
        in bench.refusal(
            [
                {
                    **row,
                    "messages": [
                        {"role": "user", "content": "a", "weight": 0},
                        {"role": "assistant", "content": "b", "train": 0},
                    ],
                }
            ],
            loss_mask=mask,
        ).message
    )
