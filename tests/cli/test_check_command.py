"""`burnish check`: in this folder without a server, and on a volume with a real one."""

import json

import pytest

from burnish.cli.check_text import summary_lines
from burnish.cli.show import CheckScreen
from burnish.run.report import CheckReport, LedgerReport, ProofRow, Warned

CONFIG = """\
max_steps = 4
[model]
name = "burnish/tiny"
[data]
name = "{data}"
seq_len = 128
batch_size = 2
[optim]
lr = 1e-3
"""
SECRET = "ghp_" + "aB3x" * 9
ANSWER = "\\u001b[31mfour\\n\\u202e!"
ROW = f'{{"messages": [{{"role": "user", "content": "2+2"}}, {{"role": "assistant", "content": "{ANSWER}"}}]}}\n'
PRIVATE = ROW.replace("2+2", f"mine is {SECRET}")


def config(data: str = "my-data", **changes: str) -> str:
    text = CONFIG.format(data=data)
    for old, new in changes.items():
        text = text.replace(f"{old} =", f"{new} =")
    return text


@pytest.fixture
def here(terminal):
    terminal.write("my-data/train.jsonl", ROW * 3 + PRIVATE)
    terminal.write("sft.toml", config())
    return terminal


@pytest.fixture(scope="module")
def at(shared):
    shared.write("my-data/train.jsonl", ROW * 3 + PRIVATE)
    shared.run("volumes", "create", "research", "--size", "1Gi")
    shared.run("volumes", "put", "research", "my-data", "/datasets/my-data")
    shared.write("sft.toml", config("datasets/my-data"))
    return shared


def test_here_it_tells_all_without_a_server(here):
    done = here.run_apart("check", "sft.toml")
    for words in (
        "Check of sft.toml: burnish/tiny, rendered by auto (chatml)",
        "⟦trained⟧, all else is context",
        "train.jsonl:1: 38 tokens, 15 trained",
        "<|im_start|>assistant⏎\n⟦\\x1b[31mfour⏎\n\\u202e!<|im_end|>⟧⏎",
        "  Rows read:       4, 4 used",
        "  Steps:           4 (1 to an epoch)",
        "  data.batch_size = 2: packed rows in one optimizer step, over all devices.",
        "Verdict: this config would be accepted.",
    ):
        assert words in done.stdout
    assert "\x1b" not in done.stdout and "\u202e" not in done.stdout and SECRET not in done.stdout
    assert done.stderr == "" and not here.home.server.exists()


def test_as_json_it_is_one_document_with_every_token(here):
    done = here.run_apart("check", "sft.toml", "--json")
    report = CheckReport.model_validate(json.loads(done.stdout))
    assert (report.complete, report.refusals, len(report.proof)) == (True, [], 4)
    assert all(len(row.token_ids) == len(row.trained) for row in report.proof)
    assert report.ledger and report.ledger.duplicates.rows == 2
    assert SECRET not in done.stdout and done.stderr == ""
    assert len(here.json("check", "sft.toml", "--rows", "3")["proof"]) == 3
    part = here.json("check", "sft.toml", "--first", "2")
    assert (part["complete"], part["ledger"]["rows_read"]) == (False, 2)


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (config(seq_len="seqlen"), "config", "seqlen"),
        (config("nowhere"), "data", "nowhere does not exist"),
        ("max_steps = [", "config", ""),
        (None, "config", "sft.toml is not there"),
    ],
)
def test_a_refusal_is_a_report_with_exit_code_1(terminal, text, code, words):
    if text:
        terminal.write("sft.toml", text)
    report = CheckReport.model_validate(terminal.json("check", "sft.toml", code=1))
    assert report.refusals[0].code == code and words in report.refusals[0].message
    said = terminal.run("check", "sft.toml", code=1).stdout
    assert "Verdict: refused" in said and said.count(report.refusals[0].message) == 1


def test_bad_rows_are_refused_and_the_rest_is_told_all_the_same(here):
    here.write("my-data/train.jsonl", ROW + "42\n")
    said = here.run("check", "sft.toml", code=1).stdout
    assert "Refused at first sight:\n  1 of 2 rows cannot be used: train.jsonl:2: a number" in said
    assert "Rows read:       2, 1 used, 1 skipped (bad row)" in said
    assert said.count("Hint: Correct these rows") == 2


def test_a_row_that_makes_several_samples_has_them_numbered(capsys):
    rows = [ProofRow(source=name, token_ids=[], trained=[], pieces=[]) for name in ("a:1", "a:1", "a:2")]
    CheckScreen("sft.toml").first(CheckReport(model="m", renderer="qwen3", proof=rows))
    said = capsys.readouterr().out
    assert [line for line in said.splitlines() if line.endswith(" trained")] == [
        "a:1: 0 tokens, 0 trained",
        "a:1, sample 2: 0 tokens, 0 trained",
        "a:2: 0 tokens, 0 trained",
    ]


def test_a_run_does_not_warn_of_what_its_notes_have_said():
    lint = [Warned(key=key, text=f"{key} has no effect.", reason="Why.") for key in ("type", "gpu_type")]
    ledger = LedgerReport(
        rows_read=1, rows_used=1, samples=1, tokens_rendered=2, trained_tokens_rendered=1, tokens=2, trained_tokens=1,
        packed_rows=1, slots=2, padding=0, pad_share=0,
    )  # fmt: skip
    lines = summary_lines(CheckReport(ledger=ledger, lint=lint), notes=["type has no effect here: why."])
    assert [line for line in lines if line.startswith("Warning")] == ["Warning: gpu_type has no effect. Why."]


def test_rows_that_share_a_fault_are_told_of_together(here):
    here.write("my-data/train.jsonl", "1\n" + ROW + '{"q": 1}\n2\n')
    said = here.run("check", "sft.toml", code=1).stdout
    told = "train.jsonl:1, train.jsonl:4: a number, not an object"
    assert f"3 of 4 rows cannot be used: {told}; train.jsonl:3: no known columns" in said
    assert f"  Skipped {told}\n" in said


def test_a_data_set_that_is_not_there_is_told_of_once_with_where_it_was_looked_for(here):
    here.write("sft.toml", config("/volume/datasets/my-data"))
    said = here.run("check", "sft.toml", code=1).stdout
    assert said.count("/volume/datasets/my-data does not exist.\n") == 1
    assert "With --volume NAME, data.name is a path on that volume" in said
    assert said.endswith("Verdict: refused, for what is said above.\n")


def test_on_a_volume_the_server_says_the_same(at):
    at.write("local.toml", config())
    here, there = (at.json("check", *words) for words in (("local.toml",), ("sft.toml", "--volume", "research")))
    assert there["ledger"] == here["ledger"] and there["proof"] == here["proof"]
    assert there["stream_at_end"] == here["stream_at_end"] != ""
    said = at.run("check", "sft.toml", "--volume", "research").stdout
    assert "train.jsonl:1: 38 tokens, 15 trained" in said and "Verdict: this config would be accepted." in said
    assert (
        "There is no volume nowhere"
        in at.json("check", "sft.toml", "--volume", "nowhere", code=1)["refusals"][0]["message"]
    )


@pytest.mark.slow
def test_a_run_agrees_with_its_check_and_not_with_another(at):
    run = at.json("train", "sft.toml", "--volume", "research", "--follow")
    shown = at.run("train", "get", run["id"]).stdout
    assert "  Check: 4 of 4 rows used, " in shown and "  Renderer: auto (chatml)" in shown
    assert f"  Stream: agrees: up to step 4, {run['id']} was given the very tokens" in shown
    assert "  Warning: data.name: The data holds what looks like 1 secret." in shown
    assert at.json("check", "sft.toml", "--run", run["id"])["comparison"]["verdict"] == "agrees"
    at.write("other.toml", config("datasets/my-data").replace("[optim]", "loss_mask = {user = true}\n[optim]"))
    assert at.json("check", "other.toml", "--run", run["id"])["comparison"]["verdict"] == "differs"
    assert at.json("check", "sft.toml", "--run", run["id"], "--first", "2")["comparison"]["verdict"] == "not compared"
