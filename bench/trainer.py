"""Speed of the training step against a minimal Hugging Face loop on the same rows, in one process, in turns.

    python bench/trainer.py [--smollm2 FOLDER] [--steps 4] [--threads 1]

Prints a table of real tokens per CPU-second, as medians; the ratio is the number to trust, since both sides meet the
same neighbours. The peer is what one writes first: the model as it is, a block-diagonal mask so that packed
conversations stay apart, full logits, `cross_entropy`, `clip_grad_norm_`, AdamW. Rows are drawn alike for both.
"""

# ruff: noqa: E402 (the process is settled before torch is imported)
from burnish.train.machine import settle_process  # isort: skip

settle_process()

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn
from transformers import AutoModelForCausalLM, Qwen3Config, Qwen3ForCausalLM

from burnish.data.loader import IGNORED, Batch, shift
from burnish.data.store import Stored
from burnish.run.plan import Layout
from burnish.spec.model_facts import read_model_facts
from burnish.spec.train import AdamW
from burnish.train import optim
from burnish.train.loop import probe_cpu_flops, take_step
from burnish.train.model import load_decoder
from burnish.train.parallel import World, open_world

_ROW_TOKENS = 1024
_TRAINED_SHARE = 0.66


@dataclass(frozen=True)
class Result:
    tokens_per_cpu_second: float
    tokens_per_second: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smollm2", type=Path, help="a Hugging Face folder of SmolLM2-135M")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rows", type=int, help="rows of 1024 in a step; default 8 for tiny, 1 for smollm2")
    given = parser.parse_args()
    world = _world(given.threads)
    peak = probe_cpu_flops()
    print(f"{given.threads} thread(s), float32 matrix product peak {peak / 1e9:.0f} GFLOP/s, rows of {_ROW_TOKENS}")
    print(f"{'model':<10} {'':<14} {'tok/cpu-s':>10} {'tok/s':>8}")
    with tempfile.TemporaryDirectory() as folder:
        _write_tiny(Path(folder))
        _compare("tiny", Path(folder), world, steps=given.steps, rows=given.rows or 8)
    if given.smollm2:
        _compare("smollm2", given.smollm2, world, steps=given.steps, rows=given.rows or 1)


def _compare(name: str, folder: Path, world: World, *, steps: int, rows: int) -> None:
    vocabulary = read_model_facts(folder).vocabulary
    batches = [[_row(vocabulary, seed=step * rows + row) for row in range(rows)] for step in range(steps + 1)]
    contestants = {"burnish": _ours(folder, world), "minimal HF": _minimal(folder)}
    results: dict[str, list[Result]] = {contestant: [] for contestant in contestants}
    losses: dict[str, float] = {}
    for number, step_batches in enumerate(batches):
        for contestant, take in contestants.items():
            result, loss = _timed(take, step_batches)
            if number == 0:
                losses[contestant] = loss  # the first step warms up; both start from the same weights
            else:
                results[contestant].append(result)
    if abs(losses["burnish"] - losses["minimal HF"]) > 1e-4:
        raise SystemExit(f"{name}: the two do not compute the same loss: {losses}")
    medians = {contestant: _median(each) for contestant, each in results.items()}
    for contestant, result in medians.items():
        print(f"{name:<10} {contestant:<14} {result.tokens_per_cpu_second:>10.0f} {result.tokens_per_second:>8.0f}")
    ours, theirs = medians.values()
    print(
        f"{name:<10} {'ratio':<14} {ours.tokens_per_cpu_second / theirs.tokens_per_cpu_second:>9.2f}x "
        f"{ours.tokens_per_second / theirs.tokens_per_second:>7.2f}x"
    )


def _timed(take: Callable[[list[Batch]], float], batches: list[Batch]) -> tuple[Result, float]:
    cpu, wall = time.process_time(), time.perf_counter()
    loss = take(batches)
    tokens = sum(batch.tokens for batch in batches)
    return Result(tokens / (time.process_time() - cpu), tokens / (time.perf_counter() - wall)), loss


def _median(results: list[Result]) -> Result:
    return Result(
        statistics.median(result.tokens_per_cpu_second for result in results),
        statistics.median(result.tokens_per_second for result in results),
    )


def _ours(folder: Path, world: World) -> Callable[[list[Batch]], float]:
    decoder = load_decoder(folder, world)
    optimizer = optim.build_optimizer(decoder.model, AdamW(learning_rate=1e-5))

    def take(batches: list[Batch]) -> float:
        return take_step(world, decoder, optimizer, batches, learning_rate=1e-5, clip_norm=1.0).loss

    return take


def _minimal(folder: Path) -> Callable[[list[Batch]], float]:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)

    def take(batches: list[Batch]) -> float:
        trained = sum(batch.trained_tokens for batch in batches)
        total = 0.0
        for batch in batches:
            document_T = torch.from_numpy(np.repeat(np.arange(len(batch.lengths_D)), batch.lengths_D))
            mask_TT = (document_T[:, None] == document_T[None, :]).tril()
            output = model(
                torch.from_numpy(batch.inputs_T)[None],
                attention_mask=mask_TT[None, None],
                position_ids=torch.from_numpy(batch.positions_T)[None],
                use_cache=False,
            )
            targets_T = torch.from_numpy(batch.targets_T)
            loss = nn.functional.cross_entropy(output.logits[0], targets_T, ignore_index=IGNORED, reduction="sum")
            (loss / trained).backward()
            total += loss.item() / trained
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return total

    return take


def _row(vocabulary: int, *, seed: int) -> Batch:
    """A full row of conversations about 200 tokens long, the answer of each trained."""
    chance = np.random.default_rng(seed)
    documents: list[Stored] = []
    left = _ROW_TOKENS
    while left:
        length = min(left, int(chance.integers(80, 320)))
        length = left if left - length < 80 else length
        token_ids = chance.integers(0, vocabulary, length).astype(np.uint32)
        documents.append(Stored(token_ids, (np.arange(length) >= length * (1 - _TRAINED_SHARE)).astype(np.uint8)))
        left -= length
    return shift(documents)


def _write_tiny(folder: Path) -> None:
    """Qwen3, 4 layers of 256, vocabulary 8192, random weights."""
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=8192,
        hidden_size=256,
        intermediate_size=768,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        tie_word_embeddings=True,
    )
    Qwen3ForCausalLM(config).save_pretrained(folder)


def _world(threads: int) -> World:
    layout = Layout(device="cpu", ranks=1, readers=1, rows_per_step=1, rows_per_device=1, row_tokens=_ROW_TOKENS)
    world = open_world(layout, "float32")
    torch.set_num_threads(threads)
    return world


if __name__ == "__main__":
    main()
