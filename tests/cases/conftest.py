"""Data sets rendered whole, as a user would be shown them: row by row, what is context and what is trained."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from burnish.data.prepare import PreparedData, prepare_data
from burnish.data.render import ChatRenderer, load_chat_renderer
from burnish.errors import DataError
from burnish.models.tiny import build_tiny
from burnish.spec.train import Renderer, SourceData, TrainSpec

Rows = list[dict | str]


@dataclass(frozen=True)
class Shown:
    """One sample of an epoch."""

    whole: str
    trained: str
    trained_spans: tuple[str, ...]
    token_ids: tuple[int, ...]
    loss_mask: tuple[int, ...]


@dataclass(frozen=True)
class Bench:
    folder: Path
    model: Path

    def write(self, rows: Rows, name: str = "data.jsonl") -> Path:
        lines = (row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows)
        path = self.folder / name
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        return path

    def spec(self, *, row_tokens: int = 512, rows_per_step: int = 1, renderer: str = "auto", **data) -> TrainSpec:
        return TrainSpec(
            model="burnish/tiny",
            data=SourceData(path="datasets/data.jsonl", shuffle=False, **data),
            row_tokens=row_tokens,
            rows_per_step=rows_per_step,
            steps=9,
            renderer=Renderer.model_validate({"name": renderer}),
        )

    def prepare(self, rows: Rows | Path, **wish) -> PreparedData:
        return prepare_data(
            self.spec(**wish),
            model_directory=self.model,
            data_path=rows if isinstance(rows, Path) else self.write(rows),
            store_directory=self.folder / "stores",
            say=lambda _: None,
        )

    def show(self, rows: Rows | Path, *, row_tokens: int = 2048, **wish) -> list[Shown]:
        """Every sample of an epoch, one to a row, in the order of the file."""
        prepared = self.prepare(rows, pack=False, row_tokens=row_tokens, **wish)
        renderer = load_chat_renderer(self.model, Renderer())
        assert prepared.source.rows is not None
        samples = [sample for row in range(prepared.source.rows) for sample in prepared.source.row(row)]
        return [_shown(renderer, sample.token_ids, sample.loss_mask) for sample in samples]

    def refusal(self, rows: Rows | Path, **wish) -> DataError:
        with pytest.raises(DataError) as caught:
            self.prepare(rows, **wish)
        return caught.value


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`burnish/tiny`: byte-ChatML, so tokens can be counted by hand."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    build_tiny(folder)
    return folder


@pytest.fixture
def bench(tmp_path: Path, tiny_model: Path) -> Bench:
    return Bench(tmp_path, tiny_model)


@pytest.fixture
def bench_on(tmp_path: Path) -> Callable[[Path], Bench]:
    """A bench over another model's folder."""
    return lambda model: Bench(tmp_path, model)


def _shown(renderer: ChatRenderer, token_ids: np.ndarray, loss_mask: np.ndarray) -> Shown:
    edges = np.flatnonzero(np.diff(loss_mask.astype(np.int8), prepend=0, append=0))
    spans = tuple(renderer.decode(token_ids[start:stop]) for start, stop in zip(edges[::2], edges[1::2], strict=True))
    return Shown(
        whole=renderer.decode(token_ids),
        trained=renderer.decode(token_ids[loss_mask > 0]),
        trained_spans=spans,
        token_ids=tuple(token_ids.tolist()),
        loss_mask=tuple(loss_mask.tolist()),
    )
