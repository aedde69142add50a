"""The proof that a run that is cut off loses nothing, on a config as users write one; and that it can fail."""

import json
import sys
from pathlib import Path

import pytest

from burnish.cli import verify
from burnish.cli.main import main
from burnish.home import Home
from burnish.models.cache import ModelCache

CONFIG = """
max_steps = 1000
[model]
name = "burnish/tiny"
[data]
type = "fake"
seq_len = 64
batch_size = 2
[scheduler]
type = "linear"
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BURNISH_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    ModelCache(Home(tmp_path / "home").models).add("burnish/tiny")
    (tmp_path / "sft.toml").write_text(CONFIG)
    return tmp_path / "sft.toml"


def test_a_run_that_is_cut_and_resumed_is_proved_to_equal_the_whole_one(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["verify-resume", str(config), "--steps", "3", "--json"])
    assert ended.value.code == 0
    proof = json.loads(capsys.readouterr().out)
    assert proof["exact"] and (proof["steps"], proof["killed_after"], proof["resumed_from"]) == (3, 2, 1)
    assert proof["weights"] > 10 and proof["moments"] >= 2 * proof["weights"]
    assert [path.name for path in config.parent.iterdir() if path.name.startswith("runs")] == []


def test_a_resume_that_reads_other_rows_is_found_out(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The trainer of this test forgets a step when it starts from a checkpoint."""
    broken = config.parent / "broken"
    (broken / "burnish_broken").mkdir(parents=True)
    (broken / "burnish_broken" / "__init__.py").write_text("")
    (broken / "burnish_broken" / "train.py").write_text(
        "import sys\nfrom burnish.data.loader import RowLoader\nfrom burnish.train.__main__ import main\n"
        "step = RowLoader.step\n"
        "import burnish.train.shelf as shelf, burnish.train.__main__ as door\n"
        "def find(*given, **named):\n"
        "    start = shelf.find_start(*given, **named)\n"
        "    if start: RowLoader.step = lambda self, number: step(self, number + 1)\n"
        "    return start\n"
        "door.find_start = find\n"
        "sys.exit(main())\n"
    )
    monkeypatch.syspath_prepend(str(broken))
    monkeypatch.setenv("PYTHONPATH", f"{broken}:{':'.join(sys.path)}")
    monkeypatch.setattr(verify, "_TRAINER", "burnish_broken.train")
    with pytest.raises(SystemExit) as ended:
        main(["verify-resume", str(config), "--steps", "3"])
    assert ended.value.code == 1
    assert "Resuming is NOT exact" in (said := capsys.readouterr().out)
    assert "loss/mean of step 2" in said
