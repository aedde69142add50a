"""The tiny model, small data sets, and runs that are ordered as the control plane orders them."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnish.data.loader import Batch, shift
from burnish.data.store import Stored
from burnish.models.tiny import build_tiny
from burnish.run.directory import RunDirectory
from burnish.run.order import RunOrder, write_order
from burnish.run.plan import Layout, plan_layout
from burnish.spec.train import TrainSpec
from burnish.train.model import Decoder, load_decoder
from burnish.train.parallel import World, open_world

RUN_ID = "job_0123456789abcdef"

MakeRun = Callable[..., RunDirectory]
MakeBatch = Callable[..., Batch]


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Bits depend on the number of threads, and other tests want cores too. The trainer's own settings are undone."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    build_tiny(folder)
    return folder


@pytest.fixture
def world() -> World:
    layout = Layout(device="cpu", ranks=1, readers=1, rows_per_step=1, rows_per_device=1, row_tokens=256)
    return open_world(layout, "float32")


@pytest.fixture
def decoder(tiny: Path, world: World) -> Decoder:
    return load_decoder(tiny, world)


@pytest.fixture
def make_batch() -> MakeBatch:
    """Conversations of the given lengths in one stream; the last half of each is trained."""

    def make(*lengths: int, seed: int = 0, vocabulary: int = 250) -> Batch:
        chance = np.random.default_rng(seed)
        return shift(
            [
                Stored(
                    chance.integers(0, vocabulary, length).astype(np.uint32),
                    (np.arange(length) >= length // 2).astype(np.uint8),
                )
                for length in lengths
            ]
        )

    return make


@pytest.fixture
def make_run(tmp_path: Path, tiny: Path) -> MakeRun:
    """A run directory with its order: 40 conversations, `burnish/tiny`, ten steps, unless told otherwise."""

    def make(
        volume: str = "volume", *, model: Path = tiny, rows: int = 40, text: str | None = None, **wishes: Any
    ) -> RunDirectory:
        root = tmp_path / volume
        root.mkdir(exist_ok=True)
        data_path = root / "train.jsonl"
        data_path.write_text(
            text if text is not None else "\n".join(json.dumps(_conversation(row)) for row in range(rows))
        )
        own = ("resume_from", "volume_bytes_free", "validation_path")
        order = {name: wishes.pop(name) for name in own if name in wishes}
        spec = TrainSpec.model_validate(_WISHES | wishes)
        run = RunDirectory.on_volume(root, RUN_ID)
        write_order(
            RunOrder(
                run_id=RUN_ID,
                spec=spec,
                layout=plan_layout(spec, device="cpu"),
                model_directory=model,
                data_path=None if spec.data.kind == "fake" else data_path,
                store_directory=tmp_path / "stores",
                **order,
            ),
            run,
        )
        return run

    return make


_WISHES: dict[str, Any] = {
    "model": "burnish/tiny",
    "data": {"kind": "source", "path": "train.jsonl"},
    "row_tokens": 128,
    "rows_per_step": 2,
    "steps": 10,
    "optimizer": {"kind": "adamw", "learning_rate": 1e-3},
}


def _conversation(row: int) -> dict[str, Any]:
    question, answer = f"What is {row} and {row % 7}?", f"It is {row + row % 7}" + ", surely" * (row % 5) + "."
    return {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]}
