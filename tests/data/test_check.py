"""What a check says of a data set: the proof, the sums of its ledger, its refusals. Lengths are byte-ChatML's."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from chat_folders import QWEN3, SMOLLM2, load
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from judges import with_tokens

from burnish.data.check import Setting, check_before_run, check_config, first_look
from burnish.data.conversations import Conversation, Message
from burnish.data.prepare import prepare_data
from burnish.data.proof import prove_sample
from burnish.data.render.qwen3_vl import Qwen3VL
from burnish.errors import DataError
from burnish.run.report import CheckReport, LedgerReport
from burnish.spec.train import FakeData, Linear, LossMask, Renderer, SourceData, TrainSpec, Validation


def chat(asked: str, answer: str) -> dict:
    return {"messages": [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]}


class Bench:
    def __init__(self, folder: Path, model: Path) -> None:
        self.data, self.stores, self.model = folder / "data", folder / "stores", model
        self.renderer = Renderer()
        self.data.mkdir()

    def write(self, rows: list[dict | str], name: str = "train.jsonl") -> None:
        lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
        (self.data / name).write_text("".join(f"{line}\n" for line in lines))

    def spec(self, row_tokens: int = 128, rows_per_step: int = 2, steps: int = 9, **data) -> TrainSpec:
        source = SourceData(path="datasets/data", **data)
        return TrainSpec(
            model="burnish/tiny",
            data=source,
            row_tokens=row_tokens,
            rows_per_step=rows_per_step,
            steps=steps,
            renderer=self.renderer,
        )

    @property
    def setting(self) -> Setting:
        return Setting(self.model, self.data, self.stores, "cpu", 1, parameters=1_000_000, model_bytes=4_000_000)

    def check(self, *, rows: int | None = None, **wish) -> CheckReport:
        return check_config(self.spec(**wish), self.setting, rows=rows)

    def ledger(self, **wish) -> LedgerReport:
        ledger = self.check(**wish).ledger
        assert ledger is not None
        return ledger

    def refusal(self, **wish) -> str:
        """The only one, which a submission raises in the same words."""
        report = self.check(**wish)
        assert len(report.refusals) == 1, report.refusals
        refused = report.refusals[0]
        with pytest.raises(DataError) as raised:
            check_before_run(self.spec(**wish), self.setting)
        assert (raised.value.message, raised.value.hint) == (refused.message, refused.hint)
        return refused.message


@pytest.fixture
def bench(tmp_path: Path, tiny: Path) -> Bench:
    return Bench(tmp_path, tiny)


@pytest.fixture
def under_template(tmp_path: Path, bpe_folder: Callable[[str | None], Path]) -> Callable[[str], Bench]:
    return lambda template: Bench(tmp_path, bpe_folder(template))


# -- the ledger ---------------------------------------------------------------

ROWS = st.lists(
    st.one_of(
        st.builds(chat, st.text("ab ", max_size=60), st.text("cd ", max_size=80)),
        st.builds(
            lambda row: row | {"messages": [*row["messages"][:1], row["messages"][1] | {"weight": 0}]},
            st.just(chat("a", "b")),
        ),
        st.sampled_from(["42", '{"messages": []}', '{"messages": [{"role": "robot", "content": "x"}]}']),
    ),
    min_size=1,
    max_size=12,
)


MIXINGS = st.sampled_from(
    [
        {},
        {"splits": ("train", "test")},
        {"splits": ("train", "test"), "probabilities": (0.2, 0.8)},
        {"splits": ("train", "test"), "probabilities": (0.9, 0.1), "stopping_strategy": "first_exhausted"},
    ]
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=ROWS,
    row_tokens=st.integers(24, 120),
    overflow=st.sampled_from(["drop", "truncate", "error"]),
    pack=st.booleans(),
    mixing=MIXINGS,
)
def test_the_ledger_adds_up_to_the_last_token(bench, rows, row_tokens, overflow, pack, mixing):
    bench.write(rows)
    bench.write([chat("of another", "split")] * 3, "test.jsonl")
    wish = {"row_tokens": row_tokens, "overflow": overflow, "pack": pack, "on_bad_row": "skip"}
    ledger = bench.ledger(**wish, **mixing)
    assert ledger.rows_read == len(rows) + 3 * bool(mixing) == ledger.rows_used + sum(ledger.rows_skipped.values())
    assert ledger.tokens_rendered + ledger.tokens_repeated == (
        ledger.tokens + ledger.tokens_cut + sum(ledger.tokens_skipped.values())
    )
    assert ledger.trained_tokens_rendered + ledger.trained_tokens_repeated == (
        ledger.trained_tokens + ledger.trained_tokens_cut + sum(ledger.trained_tokens_skipped.values())
    )
    assert ledger.slots == ledger.packed_rows * row_tokens == ledger.tokens + ledger.padding
    assert len(ledger.skipped) == min(10, sum(ledger.rows_skipped.values()))


def test_rows_that_are_skipped_are_named_with_the_reason(bench):
    bench.write([chat("ok", "yes"), "42", chat("long", "z" * 200)])
    ledger = bench.ledger(on_bad_row="skip")
    assert [(row.source, row.reason) for row in ledger.skipped] == [
        ("train.jsonl:2", "a number, not an object"),
        ("train.jsonl:3", "too long (225 tokens)"),
    ]


def test_sources_share_the_tokens_between_them(bench):
    bench.write([chat("a", "b")] * 3)
    bench.write([chat("a", "b")], "test.jsonl")
    ledger = bench.ledger(splits=("train", "test"))
    assert {name: source.conversations for name, source in ledger.sources.items()} == {"train": 3, "test": 1}
    assert sum(source.tokens for source in ledger.sources.values()) == ledger.tokens


# -- what the trainer will do ---------------------------------------------------


def test_the_trainer_finds_its_tokens_made_and_is_given_what_was_hashed(bench):
    bench.write([chat(f"question {number}", f"answer {number}") for number in range(20)])
    report = bench.check()
    said: list[str] = []
    prepared = prepare_data(
        bench.spec(), model_directory=bench.model, data_path=bench.data, store_directory=bench.stores, say=said.append
    )
    assert prepared.facts.stream == report.stream_of_epoch
    assert not [line for line in said if line.startswith("Tokenised")]
    assert report.plan and report.plan.packed_rows_per_epoch == prepared.facts.rows
    assert report.complete and len(report.stream_at_end) == 32


def test_a_part_of_the_rows_is_said_to_be_one_and_kept_nowhere(bench):
    bench.write([chat(f"question {number}", "answer") for number in range(20)])
    report = bench.check(rows=7)
    assert report.ledger and (report.ledger.rows_read, report.complete, report.stream_at_end) == (7, False, "")
    assert not bench.stores.exists()
    assert bench.check(rows=21).complete


def test_a_check_of_the_first_rows_is_not_complete_where_one_source_alone_was_read_to_its_end(bench):
    """What it says of the run's end would otherwise be held against the trainer, and differ."""
    bench.data.joinpath("en").mkdir()
    bench.data.joinpath("de").mkdir()
    bench.write([chat(f"Q{number}?", "A") for number in range(40)], "en/train.jsonl")
    bench.write([chat(f"F{number}?", "A") for number in range(4)], "de/train.jsonl")
    part = bench.check(rows=20, subsets=("en", "de"))
    assert part.ledger is not None and part.ledger.rows_read == 14
    assert not part.complete and not part.stream_at_end
    whole = bench.check(rows=82, subsets=("en", "de"))
    assert whole.complete and whole.stream_at_end == bench.check(subsets=("en", "de")).stream_at_end
    assert bench.check(rows=10**30, subsets=("en", "de")).complete


def test_the_plan_says_what_comes_of_the_schedule(bench):
    bench.write([chat("a", "b" * 60)] * 10)
    spec = bench.spec(steps=10).model_copy(update={"schedule": Linear(warmup_steps=2, decay_steps=4, minimum=1e-7)})
    report = check_config(spec, bench.setting)
    plan, ledger = report.plan, report.ledger
    assert plan and ledger
    assert (plan.steps, plan.steps_per_epoch, plan.epochs) == (10, 5, 2.0)
    assert (plan.warmup_steps, plan.decay_steps, plan.slots_per_step) == (2, 4, 256)
    assert (plan.learning_rate.first, plan.learning_rate.peak, plan.learning_rate.last) == (1e-7, 1e-6, 1e-7)
    assert plan.tokens_per_step * 5 == ledger.tokens


def test_made_up_data_has_a_plan_and_nothing_to_prove(bench):
    spec = bench.spec().model_copy(update={"data": FakeData()})
    report = check_config(spec, bench.setting)
    assert report.complete and report.plan and not report.proof and not report.refusals


# -- the proof ------------------------------------------------------------------

WORDS = st.text("ab<|>_im end\nüß漢🙂", max_size=20)
TURNS = st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=3)


@pytest.mark.parametrize("template", [None, QWEN3, SMOLLM2])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(turns=TURNS, mask=st.builds(LossMask, user=st.booleans(), assistant=st.just(True)))
def test_pieces_say_what_the_tokens_say(tiny, bpe_folder, template, turns, mask):
    renderer = load(bpe_folder(template) if template else tiny)
    messages = [Message(role, text) for pair in turns for role, text in zip(("user", "assistant"), pair, strict=True)]
    [sample, *_] = renderer.write(Conversation(tuple(messages)), mask)
    row = prove_sample(renderer, sample.pieces, "x:1")
    encoded = renderer.encode([sample.pieces])
    assert (row.token_ids, row.trained) == (encoded.token_ids.tolist(), encoded.loss_mask.tolist())
    whole = "".join(piece.text for piece in row.pieces)
    assert whole == renderer.decode(row.token_ids) == "".join(piece.text for piece in sample.pieces)
    assert row.token_ends[-1] == len(whole) and row.token_ends == sorted(row.token_ends)
    trained = [number for number, flag in zip(row.token_ids, row.trained, strict=True) if flag]
    assert renderer.decode(trained) == "".join(piece.text for piece in row.pieces if piece.trained)
    letters = [piece.trained for piece in row.pieces for _ in piece.text]
    # A token that ends no letter shows with the one that does.
    shown = [
        (flag, end)
        for flag, end, last in zip(row.trained, row.token_ends, [0, *row.token_ends], strict=False)
        if end > last
    ]
    assert all(letters[end - 1] == bool(flag) for flag, end in shown)


def test_the_proof_names_the_row_and_whose_turn_each_piece_is(bench):
    bench.write(["", chat("Hello", "Hi")])
    [row] = bench.check().proof
    assert row.source == "train.jsonl:2"
    assert [(piece.text, piece.trained, piece.role) for piece in row.pieces] == [
        ("<|im_start|>user\nHello<|im_end|>\n", False, "user"),
        ("<|im_start|>assistant\n", False, "assistant"),
        ("Hi<|im_end|>", True, "assistant"),
        ("\n", False, "assistant"),
    ]


def test_the_first_look_is_the_proof_alone_and_reads_little(bench):
    bench.write([chat("a", "b")] * 100 + ["42"])
    report = first_look(bench.spec(), bench.setting, proof_rows=3)
    assert len(report.proof) == 3 and report.ledger is None and not report.refusals


def test_how_far_it_has_come_is_told_from_the_reading_to_the_last_look(bench):
    bench.write([chat("a", "b")] * 600)
    told: list[tuple[str, int, int | None]] = []
    check_before_run(bench.spec(), bench.setting, on_progress=lambda *how_far: told.append(how_far))
    assert list(dict.fromkeys(what for what, _, _ in told)) == [
        "Reading and tokenising",
        "Checking masks",
        "Looking for repeats and secrets",
    ]
    assert all(total and 0 <= done <= total for _, done, total in told)


# -- refusals ---------------------------------------------------------------------

_TURN = "<|im_start|>{{ each.role }}\n{{ each.content }}"
_TEMPLATE = "{%- for each in messages -%}" + _TURN + "<|im_end|>\n{%- endfor -%}"


def test_rows_that_cannot_be_used_are_refused_and_counted_all_the_same(bench):
    bench.write([chat("a", "b"), "42", *[chat("a", "c")] * 30, "17"])
    assert bench.refusal().startswith(
        "2 of 33 rows cannot be used: train.jsonl:2, train.jsonl:33: a number, not an object."
    )
    assert bench.ledger().rows_skipped == {"bad row": 2}


def test_a_set_without_a_trained_token_is_refused(bench):
    bench.write([chat("a", "b")] * 3)
    message = bench.refusal(loss_mask=LossMask(assistant=False))
    assert message == "datasets/data: no row is left to train on (3 of 3 rows dropped (no trained token))."


def test_a_set_without_rows_is_refused(bench):
    bench.write(["", " "])
    assert "the dataset has no rows" in bench.refusal()


def test_rows_that_are_too_long_are_refused_where_that_is_asked(bench):
    bench.write([chat("a", "b"), chat("a", "b" * 200)])
    assert "1 of 2 rows are longer than seq_len (128 tokens)" in bench.refusal(overflow="error")
    assert bench.ledger(overflow="error").rows_skipped == {"too long": 1}


def test_a_missing_set_and_a_plan_that_does_not_divide_are_both_told(bench):
    spec = bench.spec().model_copy(update={"rows_per_device": 4, "rows_per_step": 6})
    spec = spec.model_copy(update={"data": SourceData(path="datasets/nowhere")})
    setting = Setting(**{**vars(bench.setting), "data_path": bench.data / "nowhere"})
    assert [refusal.code for refusal in check_config(spec, setting).refusals] == ["plan", "data"]


def test_a_template_that_writes_its_opening_twice_is_refused(under_template):
    bench = under_template("<|endoftext|><|endoftext|>" + _TEMPLATE)
    bench.write([chat("a", "b")] * 2)
    assert bench.refusal() == "train.jsonl:1 begins with <|endoftext|> twice, and so do 1 more samples."


def test_text_that_brings_a_second_opening_is_refused_where_it_may_be_control(bench):
    bench.write([chat("a", "b")])
    text = "<|im_start|><|im_start|>once"
    bench.write([{"text": text}])
    assert not bench.check().refusals
    assert "begins with <|im_start|> twice" in bench.refusal(allow_control_tokens=True)


def test_an_answer_whose_end_is_not_trained_is_refused(under_template):
    bench = under_template(
        "{%- for each in messages -%}<|im_start|>{{ each.role }}\n"
        "{% if each.role == 'assistant' %}{% generation %}{{ each.content }}{% endgeneration %}"
        "{% else %}{{ each.content }}{% endif %}{{ ' ' }}<|im_end|>\n{%- endfor -%}"
    )
    bench.write([chat("a", "b")] * 3)
    assert bench.refusal() == "train.jsonl:1 trains an answer but not the token that ends it (3 samples in all)."


def test_marks_around_other_words_than_the_answer_are_refused(under_template):
    marked = "{% if each.role == 'assistant' %}{% generation %}!{% endgeneration %}{% endif %}<|im_end|>\n"
    bench = under_template("{%- for each in messages -%}" + _TURN + marked + "{%- endfor -%}")
    bench.write([chat("what is it", "this")])
    assert (
        bench.refusal() == "train.jsonl:1: messages[1] is to be trained, but the tokens that are trained do not say it."
    )


def test_a_turn_that_is_lost_far_down_the_file_is_found(under_template):
    marked = (
        "{{ each.content if each.role == 'user' or 'rare' in each.content }}{% if each.role == 'assistant' %}"
        "{% generation %}{{ each.content if 'rare' not in each.content }}<|im_end|>{% endgeneration %}{% endif %}\n"
    )
    bench = under_template("{%- for each in messages -%}<|im_start|>{{ each.role }}\n" + marked + "{%- endfor -%}")
    rows = [chat("what", f"answer {number}") for number in range(90)]
    rows[61] = rows[80] = chat("what", "a rare one")
    bench.write(rows)
    assert bench.refusal() == (
        "train.jsonl:62: messages[1] is to be trained, but the tokens that are trained do not say it "
        "(2 such rows in all)."
    )


def test_letters_that_the_tokenizer_cannot_write_are_counted_and_refuse_nothing(tmp_path, bpe_folder):
    folder = tmp_path / "poor"
    folder.mkdir()
    made = json.loads((bpe_folder(SMOLLM2) / "tokenizer.json").read_text())
    for byte in "ðŁĻĤ":  # of which this alphabet makes an emoji
        made["model"]["vocab"].pop(byte)
    made["model"]["merges"] = [pair for pair in made["model"]["merges"] if not set("".join(pair)) & set("ðŁĻĤ")]
    made["model"]["vocab"] = {word: at for at, word in enumerate(made["model"]["vocab"])}
    (folder / "tokenizer.json").write_text(json.dumps(made))
    (folder / "tokenizer_config.json").write_text((bpe_folder(SMOLLM2) / "tokenizer_config.json").read_text())
    bench = Bench(tmp_path, folder)
    bench.write([*[chat("a", "plain")] * 20, chat("a", "a 🙂 face")])
    report = bench.check()
    assert not report.refusals and report.ledger and report.ledger.rows_respelt == 1
    assert any(warned.key == "model.name" and "1 of 21 rows" in warned.text for warned in report.lint)


def test_what_the_first_rows_show_is_told_once(under_template):
    marked = "{% if each.role == 'assistant' %}{% generation %}!{% endgeneration %}{% endif %}<|im_end|>\n"
    bench = under_template("{%- for each in messages -%}" + _TURN + marked + "{%- endfor -%}")
    bench.write([chat("what is it", "this")] * 3)
    assert [refused.message for refused in first_look(bench.spec(), bench.setting).refusals] == [
        "train.jsonl:1: messages[1] is to be trained, but the tokens that are trained do not say it."
    ]
    assert "(3 such rows in all)" in bench.refusal()


def test_a_template_that_rewrites_earlier_turns_is_refused(under_template):
    rewriting = (
        "{%- for each in messages -%}<|im_start|>{{ each.role }}\n"
        "{{ each.content if loop.last or each.role == 'user' else each.content | upper }}<|im_end|>\n{%- endfor -%}"
    )
    bench = under_template(rewriting)
    bench.write([{"messages": [*chat("a", "first")["messages"], *chat("b", "second")["messages"]]}])
    assert "1 of 1 rows cannot be used: train.jsonl:1: the model's chat template" in bench.refusal()


# -- images -----------------------------------------------------------------------

PICTURE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
)
PICTURED = {
    "messages": [
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": PICTURE}}, "Which colour?"]},
        {"role": "assistant", "content": "Red."},
    ]
}
UNSEEN = "a model is trained on text alone here: it would learn to answer without seeing."


@pytest.fixture
def seeing(tmp_path: Path, bpe_folder: Callable[[str | None], Path]) -> Bench:
    folder = with_tokens(tmp_path / "seeing", bpe_folder(QWEN3), Qwen3VL().needs)
    bench = Bench(tmp_path, folder)
    bench.renderer = Renderer(name="qwen3-vl")
    return bench


@pytest.mark.parametrize("before", [2, 40])
def test_images_are_shown_by_a_check_and_refused_before_a_run(seeing, before: int):
    seeing.write([chat("a", "b")] * before + [PICTURED, PICTURED])
    assert seeing.refusal() == f"train.jsonl:{before + 1} shows an image, and {UNSEEN}"
    report = check_config(seeing.spec(), seeing.setting, proof_rows=before + 1)
    assert report.proof[before].pieces[-2].text == "Red.<|im_end|>"
    assert any("<|image_pad|>" in piece.text and not piece.trained for piece in report.proof[before].pieces)


def test_images_are_refused_by_the_trainer(seeing):
    seeing.write([chat("a", "b"), PICTURED])
    with pytest.raises(DataError) as refused:
        prepare_data(seeing.spec(), model_directory=seeing.model, data_path=seeing.data, store_directory=seeing.stores)
    assert refused.value.message == f"train.jsonl:2 shows an image, and {UNSEEN}"


def test_images_in_the_validation_data_are_refused_as_such(seeing):
    seeing.write([chat("a", "b")])
    seeing.write([PICTURED], "held-out.jsonl")
    spec, setting = _with_validation(seeing)
    said = [refused.message for refused in check_config(spec, setting).refusals]
    assert said == [f"In the validation data: held-out.jsonl:1 shows an image, and {UNSEEN}"]


# -- what rows say ------------------------------------------------------------------


def _with_validation(bench, name: str = "held-out.jsonl"):
    wish = Validation(data=SourceData(path=name, shuffle=False), row_tokens=512)
    spec = bench.spec(row_tokens=512).model_copy(update={"validation": wish})
    return spec, replace(bench.setting, data_path=bench.data / "train.jsonl", validation_path=bench.data / name)


def test_rows_shared_with_the_validation_data_are_found(bench):
    bench.write([chat("one", "first answer"), chat("two", "second answer")])
    bench.write([chat("three", "third answer"), chat("two", "second answer")], "held-out.jsonl")
    ledger = check_config(*_with_validation(bench)).ledger
    assert ledger is not None
    [shared] = ledger.shared
    assert (shared.split, shared.rows, shared.exact) == ("[val]", 2, 1)
    assert shared.first[0].row == "held-out.jsonl:2" and shared.first[0].earlier == "train.jsonl:2"


@pytest.mark.parametrize(
    ("lines", "said"), [([], "has no rows"), (["{"], "held-out.jsonl:1"), (None, "does not exist")]
)
def test_validation_data_that_cannot_be_read_is_refused_as_such(bench, lines, said: str):
    bench.write([chat("one", "first answer")])
    if lines is not None:
        bench.write(lines, "held-out.jsonl")
    report = check_config(*_with_validation(bench))
    [refused] = report.refusals
    assert refused.message.startswith("In the validation data: ") and said in refused.message
    assert report.ledger is not None  # the rest is looked at all the same


@pytest.mark.parametrize(
    ("row_tokens", "overflow", "said"),
    [(16, "drop", "no row is left to train on"), (60, "error", "1 of 2 rows are longer"), (60, "drop", "")],
)
def test_validation_data_that_does_not_fit_is_refused_before_the_run(bench, row_tokens, overflow, said: str):
    bench.write([chat("one", "first answer")])
    bench.write(
        [chat("two", "an answer"), chat("three", "an answer that goes on for " + "long " * 9)], "held-out.jsonl"
    )
    spec, setting = _with_validation(bench)
    data = SourceData(path="held-out.jsonl", shuffle=False, overflow=overflow)
    spec = spec.model_copy(update={"validation": Validation(data=data, row_tokens=row_tokens)})
    told = [(each.message, each.hint) for each in check_config(spec, setting).refusals]
    assert len(told) == (said != "")
    for message, hint in told:
        assert message.startswith("In the validation data: ") and said in message
        assert hint.startswith("Raise val.data.seq_len, or set") and "under [val.data]" in hint


def test_rows_shared_with_the_validation_split_are_found(bench):
    long = "The lamp burns oil and stands on a table by the door, where it is lit each evening at six. "
    bench.write([chat("one", long), chat("two", long[::-1])])
    bench.write(
        [chat("one", long), chat("one", long.replace("six", "ten")), chat("x", "another one")], "validation.jsonl"
    )
    [shared] = bench.ledger(row_tokens=512).shared
    assert (shared.split, shared.rows, shared.exact, shared.near) == ("validation", 3, 1, 1)
    assert [(pair.row, pair.earlier) for pair in shared.first] == [
        ("validation.jsonl:1", "train.jsonl:1"),
        ("validation.jsonl:2", "train.jsonl:1"),
    ]
    assert not bench.ledger(row_tokens=512, splits=("train", "validation")).shared


SECRETS = ["ghp_" + "aB3x" * 9, "sk-proj-Abc123Def456Ghi789Jkl012", "jane.doe@example.com", "4242 4242 4242 4242"]


def test_no_secret_is_told_in_full(bench):
    bench.write([chat(f"Keep {SECRETS[0]} and {SECRETS[1]}.", f"I wrote {SECRETS[2]}, {SECRETS[3]}.")])
    report = bench.check(row_tokens=512)
    told = report.model_dump_json()
    assert not [secret for secret in SECRETS if secret in told]
    assert report.ledger
    assert report.ledger.private.secrets == {"GitHub token": 1, "OpenAI or Anthropic key": 1}
    assert report.ledger.private.personal == {"e-mail address": 1, "card number": 1}
    assert [(spot.source, spot.role, spot.shown) for spot in report.ledger.private.first] == [
        ("train.jsonl:1", "user", "gh…3x"),
        ("train.jsonl:1", "user", "sk…12"),
        ("train.jsonl:1", "assistant", "ja…om"),
        ("train.jsonl:1", "assistant", "42…42"),
    ]


def test_a_reason_that_quotes_the_row_covers_what_is_private_in_it(bench):
    bench.write([{"messages": [{"role": SECRETS[0], "content": "x"}]}])
    report = bench.check()
    assert "unknown role" in report.refusals[0].message and SECRETS[0] not in report.model_dump_json()


def test_of_an_endless_row_the_beginning_is_proved(bench):
    bench.write([chat("x" * 200_000, "y")])
    report = bench.check(row_tokens=300_000)
    [row] = report.proof
    assert report.ledger and len(row.token_ids) + row.tokens_left_out == report.ledger.tokens
    assert len(row.token_ids) == 32_768 and not report.refusals


def test_a_report_survives_json(bench):
    bench.write([chat("a", "b"), "42"])
    report = bench.check()
    assert CheckReport.model_validate_json(report.model_dump_json()) == report
