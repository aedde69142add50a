"""From raw JSONL to packed rows: burnish's data path beside TRL's `SFTTrainer`, on the same rows and tokenizer.

    python -m venv .cache/trl && .cache/trl/bin/pip install torch==2.13.0 trl datasets
    python bench/preparation.py .cache/trl/bin/python .cache/qwen3 [--rows 50000]

The two take turns, each in a process of its own: on one core and on all, each first with nothing kept and then again.
Imports do not count, and TRL is let warm up on 16 rows. The folder holds a tokenizer.json and a chat template;
`tests/fetch.py` fetches Qwen3's.
"""

# ruff: noqa: SIM905 (lists of words read better as text)
import argparse
import json
import os
import platform
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROW_TOKENS = 1024
WARM_UP_ROWS = 16

_OPENINGS = (
    "can you|please|how do I|what is the best way to|I would like to|could you help me|why does it matter when we|"
    "tell me how to|is it possible to|explain why people|write a short note on how to|give me three reasons to"
).split("|")
_VERBS = """plan write check repair compare read open close send build draw learn teach cook clean paint measure order
return translate summarise record choose explain improve move store protect count test design""".split()
_THINGS = """garden letter report kitchen bicycle window river budget recipe journey lesson machine picture village
program database server table message camera bottle forest market contract schedule library question answer street
mountain harbour engine ticket invoice password keyboard battery harvest winter morning neighbour teacher customer
argument function variable sentence paragraph deadline temperature""".split()
_KINDS = """small large quiet broken new old careful simple early late cheap public private blue heavy bright
local unusual reliable narrow French secure temporary wooden digital ordinary""".split()
_JOINTS = (
    "and then|because|so that|but only if|while|before|after that|unless|although|in order that|as soon as|"
    "for example when|which means that"
).split("|")
_ENDS = (".", ".", ".", ",", ";", "!", "?", ":", ".\n", ".\n\n", " (see below).", " - it's not hard.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trl", type=Path, help="the `python` of a venv with TRL")
    parser.add_argument("tokenizer", type=Path, help="a folder with tokenizer.json and tokenizer_config.json")
    parser.add_argument("--rows", type=int, default=50_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        write_rows(place / "train.jsonl", given.rows)
        (place / "few").mkdir()
        write_rows(place / "few" / "train.jsonl", WARM_UP_ROWS)
        model = write_model(place / "model", given.tokenizer)
        pythons = {"burnish": Path(sys.executable), "TRL": given.trl}
        print(f"{given.rows:,} rows, {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
        for cores in dict.fromkeys((1, os.cpu_count() or 1)):
            results = {
                (side, run): measure(python, side, place, model, cores)
                for side, python in pythons.items()
                for run in ("cold", "warm")
            }
            report(cores, results)
        refused = measure(given.trl, "TRL with assistant_only_loss", place, model, 1)["refused"]
        print(f"\nTRL with assistant_only_loss: {refused or 'works'}")


def write_rows(path: Path, rows: int) -> None:
    """Chats of two to eight turns, the same for the same number of rows."""
    chance = random.Random(0)
    with path.open("w") as file:
        for _ in range(rows):
            turns = [{"role": "system", "content": paragraph(chance, 1)}] if chance.random() < 0.3 else []
            for _ in range(chance.choice((1, 1, 2, 2, 3, 4))):
                turns.append({"role": "user", "content": paragraph(chance, chance.randint(1, 2))})
                turns.append({"role": "assistant", "content": paragraph(chance, chance.randint(1, 6))})
            file.write(json.dumps({"messages": turns}) + "\n")


def paragraph(chance: random.Random, sentences: int) -> str:
    return " ".join(sentence(chance) for _ in range(sentences)).strip()


def sentence(chance: random.Random) -> str:
    parts = [chance.choice(_OPENINGS)]
    for _ in range(chance.randint(1, 2)):
        parts += [chance.choice(_VERBS), "the", chance.choice(_KINDS), chance.choice(_THINGS), chance.choice(_JOINTS)]
    parts += [chance.choice(_VERBS), str(chance.randint(2, 2000)), chance.choice(_THINGS) + "s"]
    return " ".join(parts).capitalize() + chance.choice(_ENDS)


def write_model(folder: Path, tokenizer: Path) -> Path:
    """The tokenizer with a model that costs TRL nothing."""
    folder.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tokenizer / name, folder)
    config = {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "vocab_size": 151936,
        "hidden_size": 8,
        "intermediate_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "num_key_value_heads": 1,
        "head_dim": 8,
        "tie_word_embeddings": True,
        "eos_token_id": 151645,
    }
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def measure(python: Path, side: str, place: Path, model: Path, cores: int) -> dict[str, Any]:
    asked = json.dumps({"side": side, "place": str(place), "model": str(model), "cores": cores})
    environment = os.environ | {
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_CACHE": str(place / f"datasets-{cores}"),
        "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
        "BENCH_SIDE": asked,
    }
    done = subprocess.run([python, __file__], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{side} ended with {done.returncode}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def report(cores: int, results: dict[tuple[str, str], dict[str, Any]]) -> None:
    print(f"\n{cores} core(s)              tokens      CPU s   wall s    tok/CPU-s      tok/s     rows    fill")
    for (side, run), result in results.items():
        tokens, cpu, wall = result["tokens"], result["cpu"], result["wall"]
        print(
            f"{side:<8} {run:<6} {result['version']:<10} {tokens:>9,} {cpu:>8.2f} {wall:>8.2f} {tokens / cpu:>12,.0f} "
            f"{tokens / wall:>10,.0f} {result['rows']:>8,} {tokens / result['rows'] / ROW_TOKENS:>7.2%}"
        )
    for run in ("cold", "warm"):
        ours, theirs = results["burnish", run], results["TRL", run]
        print(
            f"{run}: {theirs['cpu'] / ours['cpu']:.1f}x less CPU, {theirs['wall'] / ours['wall']:.1f}x less wall time"
        )


def take_side(asked: dict[str, Any]) -> dict[str, Any]:
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[: asked["cores"]]))
    place, model = Path(asked["place"]), Path(asked["model"])
    if asked["side"] == "burnish":
        return prepare_ours(place, model, asked["cores"])
    return prepare_theirs(place, model, asked["cores"], assistant_only=asked["side"] != "TRL")


def timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """What it returns, CPU seconds of this process and its children, wall seconds."""
    cpu, wall = _cpu_seconds(), time.perf_counter()
    result = work()
    return result, _cpu_seconds() - cpu, time.perf_counter() - wall


def _cpu_seconds() -> float:
    usages = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def prepare_ours(place: Path, model: Path, cores: int) -> dict[str, Any]:
    from burnish import __version__
    from burnish.data.prepare import prepare_data
    from burnish.spec.train import SourceData, TrainSpec

    data = SourceData(path=str(place / "train.jsonl"))
    spec = TrainSpec(model="qwen3", data=data, row_tokens=ROW_TOKENS, steps=1)

    def work() -> Any:
        store = place / f"store-{cores}"
        return prepare_data(spec, model_directory=model, data_path=None, store_directory=store, say=lambda said: None)

    prepared, cpu, wall = timed(work)
    facts = prepared.facts
    return {"version": __version__, "tokens": facts.tokens, "rows": facts.rows, "cpu": cpu, "wall": wall}


def prepare_theirs(place: Path, model: Path, cores: int, *, assistant_only: bool) -> dict[str, Any]:
    import trl  # pyright: ignore[reportMissingImports]
    from datasets import load_dataset  # pyright: ignore[reportMissingImports]
    from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen3Config

    tokenizer = AutoTokenizer.from_pretrained(model)
    network = AutoModelForCausalLM.from_config(Qwen3Config.from_pretrained(model))
    config = trl.SFTConfig(
        output_dir=str(place / "out"),
        max_length=ROW_TOKENS,
        packing=True,
        packing_strategy="bfd",
        assistant_only_loss=assistant_only,
        dataset_num_proc=cores if cores > 1 else None,
        use_cpu=True,
        bf16=False,
        report_to="none",
    )

    def work(path: Path) -> Any:
        rows = load_dataset("json", data_files=str(path), split="train")
        return trl.SFTTrainer(model=network, args=config, train_dataset=rows, processing_class=tokenizer).train_dataset

    few = place / "few" / "train.jsonl"
    if assistant_only:
        try:
            work(few)
        except ValueError as error:
            return {"refused": str(error)}
        return {"refused": None}
    work(few)  # what is done once in a process is not the rows' doing
    packed, cpu, wall = timed(lambda: work(place / "train.jsonl"))
    tokens = sum(map(len, packed["input_ids"]))
    return {"version": trl.__version__, "tokens": tokens, "rows": len(packed), "cpu": cpu, "wall": wall}


if __name__ == "__main__":
    if "BENCH_SIDE" in os.environ:
        print(json.dumps(take_side(json.loads(os.environ["BENCH_SIDE"]))))
    else:
        main()
