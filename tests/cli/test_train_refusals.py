"""What `burnish train CONFIG` refuses: one sentence, a hint, exit code 1, and nothing dispatched."""

import pytest

GOOD = """\
max_steps = 1
[model]
name = "burnish/tiny"
[data]
type = "fake"
"""


@pytest.fixture(scope="module")
def at(shared):
    shared.run("volumes", "create", "research", "--size", "10Mi")
    return shared


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        (GOOD.replace("burnish/tiny", "no/model"), "", "no/model"),
        (GOOD.replace('type = "fake"', 'name = "datasets/x"'), "", "requires `--volume <name>`"),
        (GOOD.replace('type = "fake"', 'name = "datasets/x"'), "--volume research", "datasets/x"),
        (GOOD, "--volume nowhere", "nowhere"),
        (GOOD + "[eval]\n", "", "[eval]"),
        ('output_dir = "x"\n' + GOOD, "", "output_dir"),
        ("max_stps = 1\n" + GOOD, "", "max_steps"),
        ("max_steps = \n", "", "line 1, column"),
    ],
)
def test_a_config_that_cannot_be_obeyed(at, text, words, said):
    at.write("sft.toml", text)
    done = at.run("train", "sft.toml", *words.split(), code=1)
    assert done.stdout == ""
    assert done.stderr.startswith("Error: ") and said in done.stderr
    assert "\nHint: " in done.stderr or "Create a volume with `burnish volumes create <name>`" in done.stderr
    assert at.json("train", "list") == {"runs": []}


def test_a_config_that_cannot_be_read(terminal):
    (terminal.folder / "folder").mkdir()
    (terminal.folder / "binary").write_bytes(b"max_steps = 1 # \xff\xfe")
    for name, said in {
        "nowhere.toml": "Error: nowhere.toml is not there.\nHint: Name a config file, or a command: ",
        "lsit": "Error: lsit is not there.\nHint: Did you mean `burnish train list`?",
        "folder": "Error: folder is a folder, not a config.\nHint: Name the file in it: folder/sft.toml.",
        "binary": "Error: binary is not UTF-8 text: byte 16 cannot be read.\nHint: ",
    }.items():
        assert terminal.run("train", name, code=1).stderr.startswith(said)
    assert not terminal.home.root.exists()


def test_a_file_named_like_a_command_is_reached_by_its_path(at):
    at.write("list", "max_steps = \n")
    assert at.json("train", "list") == {"runs": []}
    assert "is not readable TOML" in at.run("train", "./list", code=1).stderr
