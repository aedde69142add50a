"""`burnish volumes`, from the keyboard to the disk and back."""

import pytest

from burnish.wire import EntryList, EntryView, VolumeList, VolumeView


@pytest.fixture(scope="module")
def at(shared):
    shared.run("volumes", "create", "research", "--size", "1Mi")
    return shared


def test_a_folder_is_put_by_its_contents_and_comes_back_the_same(at):
    at.write("my-data/train.jsonl", '{"text": "a"}\n')
    at.write("my-data/more/with space & ünïcode?#%.jsonl", "b\n")
    done = at.run("volumes", "put", "research", "./my-data", "/datasets/my-data")
    assert done.stdout == "Put 2 files (16B) to /datasets/my-data\n"
    assert (at.home.volume("research") / "datasets/my-data/train.jsonl").read_text() == '{"text": "a"}\n'
    assert (
        at.run("volumes", "get", "research", "/volume/datasets/my-data", "back").stdout == "Got 2 files (16B) in back\n"
    )
    for name in ("train.jsonl", "more/with space & ünïcode?#%.jsonl"):
        assert (at.folder / "back" / name).read_bytes() == (at.folder / "my-data" / name).read_bytes()
    assert at.run("volumes", "get", "research", "datasets/my-data", ".").stdout == "Got 2 files (16B) in my-data\n"


def test_a_file_goes_into_a_folder_and_else_becomes_the_path(at):
    at.write("one.jsonl", "1\n")
    put = ("volumes", "put", "research", "one.jsonl")
    assert at.run(*put, "/fresh/").stdout.endswith(" to /fresh/one.jsonl\n")
    assert at.run(*put, "/fresh").stdout.endswith(" to /fresh/one.jsonl\n")
    assert at.run(*put, "/fresh/two.jsonl").stdout.endswith(" to /fresh/two.jsonl\n")
    assert at.run(*put).stdout.endswith(" to /one.jsonl\n")
    assert {entry["path"] for entry in at.json("volumes", "ls", "research", "/fresh")["entries"]} == {
        "/fresh/one.jsonl",
        "/fresh/two.jsonl",
    }


def test_a_put_that_would_overflow_says_how_to_grow_and_leaves_nothing(at):
    at.write("big/a.bin", "x" * 600_000)
    at.write("big/b.bin", "x" * 600_000)
    before = at.json("volumes", "ls", "research", "--recursive")
    done = at.run("volumes", "put", "research", "big", "/big", code=1)
    assert "burnish volumes resize research" in done.stderr
    assert at.json("volumes", "ls", "research", "--recursive") == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("put research nowhere /x", "Error: nowhere is not there."),
        ("put research empty /x", "Error: empty holds no files."),
        ("put nope one.jsonl", "Error: There is no volume nope."),
        ("get research /nowhere", "Error: "),
        ("ls research /nowhere", "Error: "),
        ("create Research", "Error: 'Research' cannot name a volume."),
        ("create research", "Error: "),
        ("create other --size lots", "Error: 'lots' is not a size."),
        ("delete research", "Error: Nobody is there to ask: Delete volume research"),
        ("get research /../../etc/passwd", "Error: '/../../etc/passwd' leaves the volume."),
    ],
)
def test_a_refusal_is_a_sentence_and_a_hint(at, words, said):
    at.write("one.jsonl", "1\n")
    (at.folder / "empty").mkdir(exist_ok=True)
    done = at.run("volumes", *words.split(), code=1)
    assert done.stdout == ""
    assert done.stderr.startswith(said)
    assert done.stderr.count("\nHint: ") == 1


def test_json_is_one_document_of_the_wires_views(terminal):
    at = terminal
    at.write("one.jsonl", "1\n")
    created = VolumeView(**at.json("volumes", "create", "team-a", "--size", "1Mi"))
    assert VolumeList(**at.json("volumes", "list")).volumes == [created]
    assert VolumeView(**at.json("volumes", "resize", "team-a", "--size", "2Mi")).size_bytes == 2 * 1024**2
    assert EntryView(**at.json("volumes", "put", "team-a", "one.jsonl")).path == "/one.jsonl"
    assert EntryView(**at.json("volumes", "du", "team-a", "/one.jsonl")).size_bytes == 2
    assert EntryView(**at.json("volumes", "get", "team-a", "/one.jsonl", "got")).size_bytes == 2
    assert "/one.jsonl" in [entry.path for entry in EntryList(**at.json("volumes", "ls", "team-a")).entries]
    assert EntryView(**at.json("volumes", "rm", "team-a", "/one.jsonl")).path == "/one.jsonl"
    assert VolumeView(**at.json("volumes", "show", "team-a")).used_bytes == 0
    assert VolumeView(**at.json("volumes", "delete", "team-a", "-y")).name == "team-a"
    assert at.json("volumes", "list") == {"volumes": []}
