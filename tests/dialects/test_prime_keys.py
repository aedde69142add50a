"""Every key of Prime's schema has exactly one fate, and meets it."""

import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from burnish.dialects import Reading, read_config
from burnish.dialects.prime_schema import PrimeConfig
from burnish.dialects.schema import NoEffect, Obeyed, Origin, Refused, Section, Verdict, keys_of
from burnish.errors import ConfigError

KEYS = Path(__file__).with_name("prime_keys.txt")

COMPANY: dict[str, dict[str, Any]] = {
    "data<sft>.loss_mask.assistant": {"data.loss_mask.user": True},
    "data<sft>.probabilities": {"data.subsets": ["x", "y"]},
    "data<sft>.stopping_strategy": {"data.subsets": ["x", "y"]},
    "val.data.loss_mask.assistant": {"val.data.loss_mask.user": True},
    "val.data.probabilities": {"val.data.subsets": ["x", "y"]},
    "val.data.stopping_strategy": {"val.data.subsets": ["x", "y"]},
    "deployment<multi_node>.type": {"deployment.num_train_nodes": 1},
    "deployment<multi_node>.gpus_per_node": {"deployment.num_train_nodes": 1},
    "deployment<multi_node>.num_infer_nodes": {"deployment.num_train_nodes": 1},
    "deployment<multi_node>.nodes_per_fsdp_group": {"deployment.num_train_nodes": 1},
}
"""What must stand beside a key for it to be seen at work."""

BOUNDS = {
    "val.data.type": "obeyed by being the one kind there is",
    "tokenizer.name": "obeyed by being the model's",
    "deployment<single_node>.gpus_per_node": "a bound on num_train_gpus",
}
"""Obeyed keys that change nothing by themselves; their own tests are in test_prime_rules."""


def _lines() -> Iterator[tuple[str, Any]]:
    for line in KEYS.read_text().splitlines():
        if not line.startswith("#"):
            key, _, sample = line.partition(" = ")
            yield key, tomllib.loads(f"x = {sample}")["x"]


SAMPLES = dict(_lines())


def _walk(key: str) -> Iterator[tuple[str, str]]:
    """`data<sft>.loss_mask` -> ("data", "sft"), ("loss_mask", "")."""
    depth, part = 0, ""
    for letter in key + ".":
        depth += (letter == "<") - (letter == ">")
        if letter == "." and not depth:
            name, _, tag = part.partition("<")
            yield name, tag.removesuffix(">")
            part = ""
        else:
            part += letter


def _fate(key: str) -> Verdict:
    """The verdict that the table gives: the key's own, or that of the first table above it that is refused whole."""
    section: type[Section] = PrimeConfig
    verdict: Verdict | None = None
    for name, tag in _walk(key):
        entry = keys_of(section)[name]
        verdict = entry.verdict
        if not isinstance(verdict, Obeyed) and not entry.sections:
            return verdict
        if entry.sections:
            found = entry.section_for({entry.tag: tag} if entry.tag else {})
            section = found or entry.sections[0]
            if section.verdict is not None and tag:
                return section.verdict
    assert verdict is not None
    return verdict


def _document(key: str, sample: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Dotted keys that choose the key's variant and company, and the same with the key itself."""
    before: dict[str, Any] = {}
    dotted: list[str] = []
    for name, tag in _walk(key):
        dotted.append(name)
        if tag:
            before[".".join([*dotted, "name" if name == "renderer" else "type"])] = tag
    if before.get("data.type") == "fake":
        before["data.name"] = None
    if key.startswith("val"):
        before["val.data.name"] = "datasets/held-out"
    before |= COMPANY.get(key, {})
    # What stands beside the key lies within it, where the key is a table that is named alone.
    return before, {".".join(dotted): sample} | before if sample == {} else before | {".".join(dotted): sample}


def _names(named: str, key: str) -> bool:
    """A message names the key itself, a table above it, or the tag of a table above it."""
    above, _, tag = named.rpartition(".")
    return key == named or key.startswith(f"{named}.") or (tag in ("type", "name") and key.startswith(f"{above}."))


@pytest.mark.parametrize("key", SAMPLES)
def test_each_key_of_prime_meets_the_fate_in_the_table(key: str, asking: Callable[..., str]) -> None:
    fate, (before, after) = _fate(key), _document(key, SAMPLES[key])
    plain = ".".join(name for name, _ in _walk(key))
    if isinstance(fate, Refused):
        with pytest.raises(ConfigError) as refused:
            read_config(asking(after))
        assert all(_names(problem.key, plain) for problem in refused.value.problems)
        return
    reading, without = read_config(asking(after)), read_config(asking(before))
    noted = [note for note in reading.notes if _names(note.split(" has no effect here")[0], plain)]
    if isinstance(fate, NoEffect):
        assert noted
        assert _wish(reading) == _wish(without)
        return
    assert not noted
    only_opens_a_table = isinstance(SAMPLES[key], dict) and key not in ("ckpt", "resume", "env_vars")
    only_chooses_the_variant = SAMPLES[key] == before.get(plain)
    if key not in BOUNDS and not only_opens_a_table and not only_chooses_the_variant:
        assert _wish(reading) != _wish(without)


def test_the_schema_names_no_key_as_primes_that_prime_lacks() -> None:
    primes = {".".join(name for name, _ in _walk(key)) for key in SAMPLES}
    ours = {path for path, origin in _paths(PrimeConfig) if origin is Origin.PRIME}
    # Aliases that prime-rl's own schema gives to num_infer_gpus and num_infer_nodes.
    aliases = {"deployment.num_eval_gpus", "deployment.num_eval_nodes"}
    assert ours - primes == aliases


def test_an_absent_key_makes_no_note_and_a_default_no_refusal(asking: Callable[..., str]) -> None:
    assert read_config(asking({"ckpt": {}})).notes == ()
    defaults = {
        path: default
        for path, default in _defaults(PrimeConfig)
        if path.split(".")[0] not in ("output_dir", "renderer", "data", "run")
    }
    reading = read_config(asking({"ckpt": {}} | defaults))
    assert _wish(reading) == _wish(read_config(asking({"ckpt": {}})))


def _wish(reading: Reading) -> tuple[Any, ...]:
    return reading.spec, reading.volume, reading.name


def _paths(section: type[Section], prefix: str = "") -> Iterator[tuple[str, Origin]]:
    for key in keys_of(section).values():
        yield prefix + key.name, key.origin
        for inner in key.sections:
            yield from _paths(inner, f"{prefix}{key.name}.")


def _defaults(section: type[Section], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every key that can be written with its default, of the tables that stand by default."""
    for key in keys_of(section).values():
        if isinstance(key.default, Section):
            yield from _defaults(type(key.default), f"{prefix}{key.name}.")
        elif isinstance(key.default, tuple):
            yield prefix + key.name, list(key.default)
        elif key.default is not None and key.name not in ("type", "name"):
            yield prefix + key.name, key.default
