"""Which files a subset and a split are read from: folders, and configurations of a README as the hub has them."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from burnish.data.readme import is_match
from burnish.data.sources import find_sources, read_records, source_labels
from burnish.errors import DataError


def _put(root: Path, *names: str) -> None:
    """Files of one row each, whose text is the file's name."""
    for name in names:
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".parquet"):
            pq.write_table(pa.table({"text": [name]}), file)
        else:
            file.write_text(json.dumps({"text": name}) + "\n")


def _readme(root: Path, configs: str) -> None:
    root.mkdir(parents=True, exist_ok=True)
    (root / "README.md").write_text(
        f"---\nlicense: mit\nconfigs:\n{configs}---\n\n# Data\n\n---\nno front matter\n---\n"
    )


def _read(path: Path, *splits: str, subsets: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    records = read_records(path, splits or ("train",), subsets=subsets)
    return [(record.source, record.value["text"]) for record in records]


def _fault(path: Path, *splits: str, subsets: tuple[str, ...] = ()) -> str:
    with pytest.raises(DataError) as caught:
        find_sources(path, splits or ("train",), subsets=subsets, called="datasets/mine")
    return caught.value.message


EN_FR = ("en/train-00000-of-00001.parquet", "en/test-00000-of-00001.parquet", "fr/train-00000-of-00001.parquet")


def test_a_subset_is_a_folder_and_each_has_its_label(tmp_path):
    _put(tmp_path, *EN_FR)
    assert _read(tmp_path, subsets=("fr", "en")) == [("fr/train", EN_FR[2]), ("en/train", EN_FR[0])]
    assert _read(tmp_path, "train", "test", subsets=("fr", "en")) == [("fr/train", EN_FR[2]), ("en/test", EN_FR[1])]
    assert source_labels(("train", "test"), ("fr", "en")) == ["fr/train", "en/test"]
    assert _read(tmp_path) == [("train", EN_FR[0]), ("train", EN_FR[2])]


def test_an_unknown_subset_is_refused_with_those_that_are_there(tmp_path):
    _put(tmp_path / "put", *EN_FR)
    assert _fault(tmp_path, subsets=("de",)) == "datasets/mine has no subset 'de'; it has: en, fr."
    assert _fault(tmp_path, "validation", subsets=("en",)) == (
        "en of datasets/mine has no split 'validation'; it has: test, train."
    )
    assert "asked for twice" in _fault(tmp_path, subsets=("en", "en"))
    _put(tmp_path, "one.jsonl")
    assert "is one file, so it has no subset 'en'" in _fault(tmp_path / "one.jsonl", subsets=("en",))


@pytest.mark.parametrize("nested", ["", "put/my-data/"])
def test_a_subset_is_found_in_a_folder_in_a_folder(tmp_path, nested):
    _put(tmp_path, *(nested + name for name in EN_FR), nested + "fr/deep/en/train.jsonl")
    assert _read(tmp_path, subsets=("en",)) == [("en/train", nested + EN_FR[0])]
    assert _read(tmp_path, subsets=("fr/deep",)) == [("fr/deep/train", nested + "fr/deep/en/train.jsonl")]


@pytest.mark.parametrize("nested", ["", "put/my-data/"])
def test_a_readme_names_subsets_splits_and_patterns(tmp_path, nested):
    _put(tmp_path, *(nested + name for name in ("a/x.jsonl", "b/x.jsonl", "b/y.jsonl", "c/train.jsonl", "c/dev.jsonl")))
    _readme(
        tmp_path / nested,
        "- config_name: text\n  data_files: a/x.jsonl\n"
        "- config_name: list\n  data_files: [a/x.jsonl, ./b/y.jsonl]\n  default: true\n"
        "- config_name: split\n  data_files:\n  - split: train_sft\n    path: b/*.jsonl\n"
        "  - split: held_out\n    path: [a/*.jsonl, '**/dev.jsonl']\n"
        "- config_name: 2024\n  data_dir: c\n"
        "- config_name: within\n  data_dir: b\n  data_files: y*\n",
    )

    def read(subset: str, split: str) -> list[str]:
        return [text.removeprefix(nested) for _, text in _read(tmp_path, split, subsets=(subset,))]

    assert read("text", "train") == ["a/x.jsonl"]
    assert read("list", "train") == ["a/x.jsonl", "b/y.jsonl"]
    assert read("split", "train_sft") == ["b/x.jsonl", "b/y.jsonl"]
    assert read("split", "held_out") == ["a/x.jsonl", "c/dev.jsonl"]
    assert read("2024", "train") == ["c/train.jsonl"]
    assert read("2024", "validation") == ["c/dev.jsonl"]
    assert read("within", "train") == ["b/y.jsonl"]
    assert read("c", "train") == ["c/train.jsonl"], "a folder that no configuration is called after"
    assert _read(tmp_path) == [("train", nested + "a/x.jsonl"), ("train", nested + "b/y.jsonl")], "the default one"
    assert "it has: held_out, train_sft" in _fault(tmp_path, subsets=("split",))
    assert "no subset 'de'; it has: text, list, split, 2024, within" in _fault(tmp_path, subsets=("de",))


def test_a_split_may_have_a_name_of_its_own(tmp_path):
    _put(tmp_path, "train_sft/x.jsonl", "data/train_gen-00000-of-00001.jsonl", "extra.jsonl")
    for split, file in (("train_sft", "train_sft/x.jsonl"), ("train_gen", "data/train_gen-00000-of-00001.jsonl")):
        assert _read(tmp_path, split) == [(split, file)]
    assert _read(tmp_path, "extra") == [("extra", "extra.jsonl")]


def test_of_several_configurations_without_a_default_one_must_be_named(tmp_path):
    _put(tmp_path, "a.jsonl", "b.jsonl")
    _readme(tmp_path, "- config_name: one\n  data_files: a.jsonl\n- config_name: two\n  data_files: b.jsonl\n")
    assert _fault(tmp_path) == "datasets/mine has several subsets and no default one: one, two."
    _readme(tmp_path, "- config_name: one\n  data_files: a.jsonl\n- config_name: default\n  data_files: b.jsonl\n")
    assert _read(tmp_path) == [("train", "b.jsonl")]
    _readme(tmp_path, "- config_name: one\n  data_files: a.jsonl\n")
    assert _read(tmp_path) == [("train", "a.jsonl")]


@pytest.mark.parametrize(
    ("configs", "reason"),
    [
        ("- config_name: a\n  data_files: [1]\n", "data_files of 'a' are not names"),
        ("- config_name: a\n- config_name: a\n", "configs names 'a' twice"),
        ("- data_files: a.jsonl\n", "one of configs has no config_name"),
        ("- config_name: a\n  data_files: gone-*.jsonl\n", "no file is called gone-*.jsonl"),
        ("- config_name: a\n  data_files: hf://datasets/x/y.jsonl\n", "no file is called hf://datasets/x/y.jsonl"),
        ("- config_name: [\n", "README.md:5: the front matter is not YAML"),
        ("  a: b\n", "configs is no list"),
        ("  !!int ''\n", "the front matter is not YAML"),
        ("  !!timestamp soon\n", "the front matter is not YAML"),
        ("  !!bool maybe\n", "the front matter is not YAML"),
        ("[" * 100_000 + "\n", "the front matter is not YAML"),
    ],
)
def test_a_readme_that_cannot_be_followed_is_refused(tmp_path, configs, reason):
    _put(tmp_path, "a.jsonl")
    _readme(tmp_path, configs)
    assert reason in _fault(tmp_path)


@pytest.mark.parametrize(
    "readme", ["", "# Data\n", "---\nlicense: mit\n---\n", "---\n", "\ufeff---\r\nx: 1\r\n---\r\n"]
)
def test_a_readme_without_configurations_changes_nothing(tmp_path, readme):
    _put(tmp_path, "train.jsonl", "test.jsonl")
    (tmp_path / "README.md").write_bytes(readme.encode())
    assert _read(tmp_path) == [("train", "train.jsonl")]


@pytest.mark.parametrize(
    ("file", "pattern", "found"),
    [
        ("data/train-0.parquet", "data/train-*", True),
        ("data/en/train-0.parquet", "data/train-*", False),
        ("data/en/train-0.parquet", "data/**", True),
        ("train.jsonl", "**/train.jsonl", True),
        ("a/b/train.jsonl", "**/train.jsonl", True),
        ("a/train.jsonl", "*/train.json?", True),
        ("a/1.jsonl", "a/[0-4].jsonl", True),
        ("a/7.jsonl", "a/[0-4].jsonl", False),
        ("a/x.jsonl", "a", True),
        ("ab/x.jsonl", "a", False),
        ("d/en.zip/x.jsonl", "d/en.zip", True),
        ("d/en.zip/x.jsonl", "d/*.zip", True),
        ("d/en.tar.gz/x.jsonl", "d/*.tar.gz", True),
        ("d/en/x.jsonl", "d/*", False),
        ("a/b.jsonl", "a/[!x].jsonl", True),
        ("a/b.jsonl", "a/[z-a].jsonl", False),
        ("a/b.jsonl", "a?b.jsonl", False),
        ("a/b/c.jsonl", "a/**/c.jsonl", True),
        ("a/c.jsonl", "a/**/c.jsonl", True),
        ("a" * 200, "a*" * 60 + "b", False),
        ("a/" * 100, "**/" * 60 + "b", False),
    ],
)
def test_a_pattern_stays_in_its_folder_unless_it_says_otherwise(file, pattern, found):
    assert is_match(file, pattern) is found
