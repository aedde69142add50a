"""`burnish train CONFIG --here`: the trainer in this terminal, with no server."""

import json
import signal
from pathlib import Path

import pytest

from burnish.cli.here import HereView
from burnish.run.directory import RunDirectory

CONFIG = """\
max_steps = {steps}
[ckpt]
[model]
name = "burnish/tiny"
[data]
name = "my-data"
seq_len = 64
batch_size = 1
"""
ROW = '{"messages": [{"role": "user", "content": "2+2"}, {"role": "assistant", "content": "4"}]}\n'


def test_it_trains_on_a_local_folder_and_says_where_the_model_is(terminal):
    terminal.write("my-data/train.jsonl", ROW * 20)
    terminal.write("sft.toml", CONFIG.format(steps=2))
    done = terminal.run_apart("train", "sft.toml", "--here", "--json")
    ending = HereView(**json.loads(done.stdout))
    assert (ending.outcome, ending.step) == ("completed", 2)
    assert Path(ending.directory) == terminal.folder / "runs" / ending.run_id
    assert (Path(ending.model_directory or "") / "model.safetensors").is_file()
    assert RunDirectory(Path(ending.directory)).log.read_text() == done.stderr
    assert not terminal.home.server.exists()


@pytest.mark.slow
def test_the_first_ctrl_c_stops_it_with_a_checkpoint(terminal):
    terminal.write("my-data/train.jsonl", ROW * 20)
    terminal.write("sft.toml", CONFIG.format(steps=100_000))
    process = terminal.start("train", "sft.toml", "--here")
    diary = terminal.wait_for(lambda: list(terminal.folder.glob("runs/*/events.jsonl")))[0]
    terminal.wait_for(lambda: '"kind":"step"' in diary.read_text())
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert " stopped at step " in out
    assert "Stopping after this step." in err
    assert RunDirectory(diary.parent).whole_checkpoints()


def test_it_refuses_what_a_server_would(terminal):
    terminal.write("sft.toml", CONFIG.format(steps=2))
    assert "my-data" in terminal.run("train", "sft.toml", "--here", code=1).stderr
    assert (
        "There is no volume research"
        in terminal.run("train", "sft.toml", "--here", "--volume", "research", code=1).stderr
    )
    assert not (terminal.folder / "runs").exists()
