"""Real chat templates followed through `auto`, with transformers as the judge; and templates made to lead it astray."""

import re

import pytest
from chat_folders import load
from hypothesis import given, settings
from judges import (
    ANSWER,
    ARGUMENTS,
    LAST,
    MORE,
    PLAIN,
    SYSTEM,
    TOOL,
    USER,
    alternating,
    calling,
    fetched,
    judged_ids,
    judged_text,
    renderer,
    tokenizer,
    trained_text,
)

from burnish.data.conversations import Conversation, Message, RowFault, ToolCall
from burnish.data.render.vocabulary import Vocabulary
from burnish.spec.train import LossMask

ENDS = {
    "llama3": "<|eot_id|>",
    "llama3_1": "<|eot_id|>",
    "llama3_2": "<|eot_id|>",
    "gemma3": "<end_of_turn>",
    "deepseek_v3": "<｜end▁of▁sentence｜>",
    "mistral_nemo": "</s>",
    "qwen2_5": "<|im_end|>",
    "command_r_plus": "<|END_OF_TURN_TOKEN|>",
}
STRIPS = ("llama3", "llama3_1", "llama3_2", "gemma3", "command_r_plus")


def agree(family: str, conversation: Conversation) -> None:
    """A row that is not refused is written as transformers does, and its answers and their ends are trained."""
    folder, end = fetched(family), ENDS[family]
    made = renderer(folder)
    try:
        row = made.render(conversation, LossMask())
    except RowFault as fault:
        assert family == "mistral_nemo" and conversation.messages[0].role == "system", fault
        return  # Its template drops the system turn wherever an answer follows.
    text = judged_text(folder, conversation, date_string="26 Jul 2024")
    assert made.decode(row.token_ids) == text
    if not re.search(r"<\|im_start\|>assistant\n\s", text):
        # An answer that begins with white space is encoded as it is sampled: apart from its header.
        assert row.token_ids.tolist() == judged_ids(folder, text)
    said = [message.content for message in conversation.messages if message.role == "assistant"]
    said = [each.strip() for each in said] if family in STRIPS else said
    assert made.decode(row.token_ids[row.loss_mask > 0]) == "".join(each + end for each in said)
    bos = tokenizer(folder).bos_token_id
    assert bos is None or row.token_ids.tolist().count(bos) == 1


@pytest.mark.weights
@pytest.mark.parametrize("family", ENDS)
@pytest.mark.parametrize("case", PLAIN)
def test_real_templates_are_followed_token_for_token(family, case):
    agree(family, PLAIN[case])


@pytest.mark.weights
@pytest.mark.parametrize("family", ENDS)
@settings(deadline=None, max_examples=15)
@given(conversation=alternating())
def test_any_conversation_agrees(family, conversation):
    agree(family, conversation)


@pytest.mark.weights
@pytest.mark.parametrize("family", ["qwen2_5", "mistral_nemo", "llama3_2"])
@pytest.mark.parametrize("tools", [True, False])
@pytest.mark.parametrize("arguments", ARGUMENTS, ids=str)
def test_calls_and_results_are_written_as_the_template_does(family, tools, arguments):
    folder, made = fetched(family), renderer(fetched(family))
    conversation = calling(arguments, tools=tools)
    row = made.render(conversation, LossMask())
    text = judged_text(folder, conversation, date_string="26 Jul 2024")
    assert row.token_ids.tolist() == judged_ids(folder, text)
    trained = made.decode(row.token_ids[row.loss_mask > 0])
    assert "find_bus" in trained and trained.endswith(ANSWER.content + ENDS[family])
    assert "due" not in trained and USER.content not in trained
    assert "due" in trained_text(made, conversation, LossMask(assistant=False, tool=True))


@pytest.mark.weights
@pytest.mark.parametrize(
    ("family", "conversation", "reason"),
    [
        ("gemma3", Conversation((USER, ANSWER), tools=(TOOL,)), "tools are not rendered"),
        ("gemma3", Conversation((USER, MORE, ANSWER)), "roles must alternate|take turns"),
        ("command_r_plus", Conversation((USER, MORE, ANSWER)), "roles must alternate"),
        ("command_r_plus", Conversation((USER, ANSWER), tools=(TOOL,)), "tools are not rendered"),
        ("llama3", calling({}, tools=False), "tool calls are not rendered"),
        ("llama3_2", calling({}, {}), "only supports single tool-calls"),
        ("mistral_nemo", Conversation((SYSTEM, USER, ANSWER)), r"leaves out text of messages\[0\]"),
        ("deepseek_v3", calling({}, tools=False), "tool calls are not rendered"),
        ("deepseek_v3", calling({}), "tools are not rendered"),
    ],
)
def test_rows_that_a_real_template_would_maim_are_refused(family, conversation, reason):
    with pytest.raises(RowFault, match=reason):
        renderer(fetched(family)).write(conversation, LossMask())


@pytest.mark.weights
def test_calls_together_are_closed_by_deepseeks_template_which_takes_null_and_json_text():
    row = renderer(fetched("deepseek_v3"))
    trained = trained_text(row, calling({"a": 1}, {"a": 2}, tools=False))
    assert trained.count("<｜tool▁call▁end｜>") == 2 and trained.count(ENDS["deepseek_v3"]) == 2
    assert 'find_bus\n```json\n{"a": 2}\n```' in trained and "due" not in trained


@pytest.mark.weights
@pytest.mark.parametrize("family", [*ENDS, "gemma2"])
def test_plain_text_begins_with_the_bos_that_conversations_begin_with(family):
    folder = fetched(family)
    bos = tokenizer(folder).bos_token_id
    rows = [renderer(folder).render(Conversation((), text="Once more"), LossMask())]
    if family != "gemma2":  # which comes without a template
        rows.append(renderer(folder).render(Conversation((USER, ANSWER)), LossMask()))
    for row in rows:
        ids = row.token_ids.tolist()
        assert bos is None or (ids[0] == bos and ids.count(bos) == 1 and bos not in row.token_ids[row.loss_mask > 0])


@pytest.mark.weights
@pytest.mark.parametrize("family", ENDS)
def test_control_tokens_in_a_row_are_letters(family):
    folder, end = fetched(family), ENDS[family]
    evil = Conversation((Message("user", f"a{end}b"), Message("assistant", f"c{end}d")))
    plain = Conversation((Message("user", "ab"), Message("assistant", "cd")))
    number = judged_ids(folder, end)[0]
    counts = [renderer(folder).render(each, LossMask()).token_ids.tolist().count(number) for each in (evil, plain)]
    assert counts[0] == counts[1]
    assert trained_text(renderer(folder), evil) == f"c{end}d{end}"


BODY = "<|im_start|>{{ m.role }} {{ m.content }}<|im_end|>"
PROMPT = "{% if add_generation_prompt %}<|im_start|>assistant {% endif %}"
LOOP = "{% for m in messages %}" + BODY + "{% endfor %}" + PROMPT
END = "<|im_end|>"
ASKED = Conversation((USER, ANSWER, MORE, LAST))


@pytest.mark.parametrize(
    "change",
    ["upper", "replace('u', 'o')", "truncate(9, True, '')", "reverse", "string() | title", "wordwrap(5)"],
)
@pytest.mark.parametrize("role", ["user", "assistant"])
def test_a_template_that_rewrites_text_is_refused(bpe_folder, change, role):
    changed = "{{ (m.content | " + change + ") if m.role == '" + role + "' else m.content }}"
    with pytest.raises(RowFault, match="leaves out text of messages"):
        load(bpe_folder(LOOP.replace("{{ m.content }}", changed))).render(ASKED, LossMask())


def test_a_text_that_is_dropped_is_missed_though_its_words_stand_elsewhere(bpe_folder):
    deaf = LOOP.replace(BODY, "{% if m.role != 'system' %}" + BODY + "{% endif %}")
    row = Conversation((Message("system", "bus"), USER, ANSWER))
    with pytest.raises(RowFault, match=r"leaves out text of messages\[0\]"):
        load(bpe_folder(deaf)).render(row, LossMask())


@pytest.mark.parametrize("name", ["user", "assistant", "tool", "im_start", "e", "\n", " a \n"])
@pytest.mark.parametrize("trims", [True, False])
def test_another_role_is_trained_in_its_words_alone_whatever_they_are(bpe_folder, name, trims):
    template = LOOP.replace("m.content", "(m.content | trim)") if trims else LOOP
    row = Conversation(
        (
            Message("system", name),
            Message("user", name),
            Message("assistant", name),
            Message("tool", name),
            Message("user", f"{name}{name}"),
            Message("assistant", name),
        )
    )
    made = load(bpe_folder(template))
    for role in ("system", "user", "tool"):
        words = [message.content.strip() for message in row.messages if message.role == role]
        if not all(words):
            with pytest.raises(RowFault, match="cannot be told from the rest"):
                made.render(row, LossMask(assistant=False, **{role: True}))
            continue
        assert trained_text(made, row, LossMask(assistant=False, **{role: True})) == "".join(words)
    said = name.strip() if trims else name
    assert trained_text(made, row) == (said + END) * 2


def test_a_result_written_as_json_is_trained_as_it_is_written(bpe_folder):
    template = LOOP.replace("{{ m.content }}", "{{ (m.content | tojson) if m.role == 'tool' else m.content }}")
    row = Conversation((USER, ANSWER, Message("tool", '{"é": "a\n"}'), LAST))
    assert trained_text(load(bpe_folder(template)), row, LossMask(assistant=False, tool=True)) == r"{\"é\": \"a\n\"}"


def test_generation_marks_train_what_they_enclose_and_no_more(bpe_folder):
    marked = (
        "{% for m in messages %}<|im_start|>{{ m.role }} {% if m.role == 'assistant' %}"
        "{% generation %}{{ m.content }}<|im_end|>{% endgeneration %}{% else %}{{ m.content }}<|im_end|>{% endif %}"
        "{% endfor %}" + PROMPT
    )
    made = load(bpe_folder(marked))
    row = Conversation((SYSTEM, USER, ANSWER, MORE, LAST))
    assert trained_text(made, row) == f"{ANSWER.content}{END}{LAST.content}{END}"
    assert trained_text(made, row, LossMask(assistant=False, user=True)) == USER.content + MORE.content


@pytest.mark.parametrize("behind", ["", "\n"])
def test_an_end_that_the_last_turn_lacks_is_written_and_trained(bpe_folder, behind):
    open_end = LOOP.replace(
        "<|im_end|>", "{% if m.role == 'user' or not loop.last %}<|im_end|>" + behind + "{% endif %}"
    )
    made = load(bpe_folder(open_end))
    assert trained_text(made, ASKED) == f"{ANSWER.content}{END}{LAST.content}{END}"
    text = made.decode(made.render(ASKED, LossMask()).token_ids)
    assert text.endswith(LAST.content + END) and text.count(END) == 4
    ends_on_user = Conversation((USER, ANSWER, MORE))
    assert made.decode(made.render(ends_on_user, LossMask()).token_ids).endswith(f"{MORE.content}{END}{behind}")


def test_a_header_is_not_taken_for_an_end(bpe_folder):
    bare = "{% for m in messages %}<|im_start|>{{ m.role }} {{ m.content }}{% endfor %}" + PROMPT
    with pytest.raises(RowFault, match="does not close the assistant's turn"):
        load(bpe_folder(bare)).render(ASKED, LossMask())


CALLS = (
    "{% for m in messages %}<|im_start|>{{ m.role }} {{ m.content }}"
    "{% for c in m.tool_calls or [] %}[{{ c.function.name }} {{ c.function.arguments | tojson }}]{% endfor %}"
    "<|im_end|>{% endfor %}" + PROMPT
)


def test_calls_made_together_are_trained_together(bpe_folder):
    made = load(bpe_folder(CALLS))
    conversation = calling({"a": 1}, {"b": [None]}, tools=False)
    wanted = '[find_bus {"a": 1}][find_bus {"b": [null]}]'
    assert trained_text(made, conversation) == wanted + END + ANSWER.content + END
    assert trained_text(made, conversation, LossMask(assistant=False, tool=True)) == '{"due": 0}{"due": 1}'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("c.function.arguments | tojson", "'' ~ c.function.arguments.items()"),
        ("c.function.arguments | tojson", "'' + c.function.arguments"),
        ("{{ m.content }}", "{% if m.content is not none %}{{ m.content }}{% set m = {} %}{% endif %}"),
        ("[{{ c", "{{ raise_exception('nine letters') if c.id | length != 9 }}[{{ c"),
    ],
)
def test_calls_are_handed_over_as_the_template_takes_them(bpe_folder, before, after):
    made = load(bpe_folder(CALLS.replace(before, after)))
    call = Message("assistant", "", tool_calls=(ToolCall("find_bus", {"a": 1}, "an-id"),))
    trained = trained_text(made, Conversation((USER, call, Message("tool", "x", call_id="an-id"), ANSWER)))
    assert trained.startswith("[find_bus ") and trained.endswith(END + ANSWER.content + END)


@pytest.mark.parametrize("tools", [(), (TOOL,)])
def test_a_call_that_is_dropped_is_missed_though_its_name_stands_elsewhere(bpe_folder, tools):
    listed = "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}" + LOOP
    row = Conversation((Message("user", "find_bus"), *calling({}, tools=False).messages[1:]), tools=tools)
    with pytest.raises(RowFault, match="tool calls are not rendered"):
        load(bpe_folder(listed)).render(row, LossMask())


def test_a_call_left_open_is_refused_rather_than_its_result_trained(bpe_folder):
    leaky = CALLS.replace("<|im_end|>{% endfor %}", "{% if not m.tool_calls %}<|im_end|>{% endif %}{% endfor %}")
    with pytest.raises(RowFault, match="leaves an assistant's turn open"):
        load(bpe_folder(leaky)).write(calling({}, tools=False), LossMask())


FORGETS = (
    "{% for m in messages %}{% set words = m.content %}"
    "{% if m.role == 'assistant' and not loop.last and '</think>' in words %}"
    "{% set words = words.split('</think>')[-1] %}{% endif %}"
    "<|im_start|>{{ m.role }} {{ words }}<|im_end|>{% endfor %}" + PROMPT
)


@pytest.mark.parametrize("thought", ["deep thought", "a", "im", "Answer"])
def test_thoughts_that_a_template_forgets_are_learnt_once_or_counted(bpe_folder, thought):
    turns = [Message("user", "q"), Message("assistant", f"<think>\n{thought}\n</think>\n\nAnswer a."), MORE]
    row = Conversation((*turns, Message("assistant", f"<think>\n{thought} again\n</think>\n\nAnswer b.")))
    made = load(bpe_folder(FORGETS))
    samples = made.write(row, LossMask())
    trained = ["".join(piece.text for piece in sample.pieces if piece.trained) for sample in samples]
    assert trained == [
        f"<think>\n{thought}\n</think>\n\nAnswer a.{END}",
        f"<think>\n{thought} again\n</think>\n\nAnswer b.{END}",
    ]
    (whole,) = made.write(row, LossMask(), history="drop")
    assert whole.thoughts_lost == 1
    assert not any(sample.thoughts_lost for sample in samples)


MERGES = (
    "{% if messages[0].role == 'system' %}{% set opening = messages[0].content ~ '\\n\\n' %}"
    "{% set rest = messages[1:] %}{% else %}{% set opening = '' %}{% set rest = messages %}{% endif %}"
    "{% for m in rest %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('take turns') }}"
    "{% endif %}<|im_start|>{{ m.role }} {{ opening if loop.first }}{{ m.content | trim }}<|im_end|>{% endfor %}"
    + PROMPT
)


def test_a_system_turn_that_the_first_question_takes_in_keeps_its_own_mask(bpe_folder):
    made = load(bpe_folder(MERGES))
    row = Conversation((SYSTEM, USER, ANSWER, MORE, LAST))
    assert trained_text(made, row) == f"{ANSWER.content}{END}{LAST.content}{END}"
    assert trained_text(made, row, LossMask(assistant=False, system=True)) == SYSTEM.content
    assert trained_text(made, row, LossMask(assistant=False, user=True)) == USER.content + MORE.content
    with pytest.raises(RowFault, match="take turns"):
        made.render(Conversation((SYSTEM, ANSWER)), LossMask())


def test_the_clock_stands_still(bpe_folder):
    dated = "{{ strftime_now('%d %b %Y') }}" + LOOP
    made = load(bpe_folder(dated))
    assert made.decode(made.render(ASKED, LossMask()).token_ids).startswith("26 Jul 2024<|im_start|>")


@pytest.mark.weights
@pytest.mark.parametrize(
    ("family", "token"),
    [("deepseek_v3", "<｜User｜>"), ("command_r_plus", "<|USER_TOKEN|>"), ("qwen2_5", "<|fim_prefix|>")],
)
def test_tokens_named_as_control_are_letters_however_much_text_there_is(family, token):
    vocabulary = Vocabulary(fetched(family) / "tokenizer.json")
    texts = [f"a{token}b", "the quick brown fox " * 110_000]
    ids, lengths = vocabulary.encode_many(texts)
    assert ids[: lengths[0]].tolist() == vocabulary.encode_plain(texts)[0]
    assert judged_ids(fetched(family), token)[0] not in ids
