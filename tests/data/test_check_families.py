"""A check of real families' own ways: nothing that they mean is refused, and the proof says what their tokens say."""

import json
from pathlib import Path
from typing import Any

import pytest

from burnish.data.check import Setting, check_config
from burnish.data.render import load_chat_renderer
from burnish.spec.train import Renderer, RendererName, SourceData, TrainSpec
from fetch import Unreachable, fetch_family

pytestmark = pytest.mark.weights


def turn(role: str, content: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


CALLS = [{"id": "call00001", "type": "function", "function": {"name": "weather", "arguments": {"city": "Paris"}}}]
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "of a city", "parameters": {}}}]
ROW_AGAIN = [turn("user", "b"), turn("assistant", "y")]
ROWS: list[dict[str, Any]] = [
    {"messages": [turn("user", "Hi."), turn("assistant", "Hello é漢🙂!")]},
    {"messages": [turn("system", "Be brief."), turn("user", " Hi. "), turn("assistant", "  Hello\n\nthere! ")]},
    {"messages": [turn("user", "a"), turn("assistant", "one"), turn("user", "b"), turn("assistant", "two")]},
    {"messages": [turn("user", "a"), turn("assistant", "no", weight=0), turn("user", "b"), turn("assistant", "yes")]},
    {
        "messages": [
            turn("user", "a"),
            turn("assistant", "x", reasoning_content="hm"),
            turn("user", "b"),
            turn("assistant", "y"),
        ]
    },
    {
        "messages": [
            turn("user", "weather?"),
            turn("assistant", "", tool_calls=CALLS),
            turn("tool", "sunny", tool_call_id="call00001"),
            turn("assistant", "It is sunny."),
        ],
        "tools": TOOLS,
    },
]
FAMILIES: list[tuple[str, RendererName]] = [
    ("qwen3", "auto"),
    ("qwen3", "qwen3.5"),
    ("qwen3", "prime-qwen3"),
    ("llama3_2", "auto"),
    ("deepseek_v3", "deepseek-r1"),
    ("gptoss", "gpt-oss"),
    ("mistral_nemo", "auto"),
]


@pytest.mark.parametrize(("family", "name"), FAMILIES)
def test_a_family_is_not_refused_for_its_own_ways(tmp_path: Path, family, name):
    try:
        folder = fetch_family(family)
    except Unreachable as error:
        pytest.skip(str(error))
    rows = tmp_path / "data"
    rows.mkdir()
    (rows / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    data = SourceData(path="x", on_bad_row="skip")
    spec = TrainSpec(model="m", data=data, row_tokens=4096, rows_per_step=1, steps=1, renderer=Renderer(name=name))
    setting = Setting(folder, rows, tmp_path / "stores", "cpu", 1, parameters=10**9, model_bytes=1)
    report = check_config(spec, setting, proof_rows=20)
    assert not report.refusals
    assert report.ledger and report.ledger.rows_used >= 4 and report.ledger.open_samples == 0
    renderer = load_chat_renderer(folder, spec.renderer)
    for row in report.proof:
        assert "".join(piece.text for piece in row.pieces) == renderer.decode(row.token_ids)
        trained = [number for number, flag in zip(row.token_ids, row.trained, strict=True) if flag]
        assert renderer.decode(trained) == "".join(piece.text for piece in row.pieces if piece.trained)
