"""The model card of an export, `README.md`: what the model was made of, enough to make it again.

It goes where the model goes, so it names no path of this machine. Knows no tensor.
"""

import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import yaml

from burnish import __version__
from burnish.data.content import content_hash
from burnish.data.sources import find_sources
from burnish.dialects import mask_secrets
from burnish.errors import DataError
from burnish.run.events import Step, Validated, read_events
from burnish.spec.train import SourceData, TrainSpec
from burnish.train.job import Job

CARD = "README.md"
_MOST_FILES = 100
_DIARY_TAIL_BYTES = 1 << 20
_FRONT_MATTER = re.compile(r"---[ \t]*\r?\n(.*?\n)---[ \t]*(?:\r?\n|$)", re.DOTALL)
_QUOTED_PATH = re.compile(r"""(["'])(~?/[^"'\n]*)\1""")
_BARE_PATH = re.compile(r"(?<![\w./:~\"'])~?/[\w.@+-]+(?:/[\w.@+-]*)+")
_LICENCE_KEYS = ("license", "license_name", "license_link")

Form = Literal["full", "adapter", "merged"]


@dataclass(frozen=True)
class CardWriter:
    job: Job
    data_files: dict[str, str] = field(default_factory=dict)
    """SHA-256 of each data file by its name, from when the run began."""

    @classmethod
    def open(cls, job: Job) -> "CardWriter":
        """To be called while the data is what was prepared."""
        return cls(job, dict(_hash_data(job)))

    def write(self, folder: Path, *, form: Form, step: int) -> None:
        front = yaml.safe_dump(self._front_matter(form), sort_keys=False, allow_unicode=True)
        (folder / CARD).write_text(f"---\n{front}---\n\n{self._text(form, step)}", encoding="utf-8")

    def _front_matter(self, form: Form) -> dict[str, Any]:
        spec = self.job.order.spec
        return {
            "base_model": _name_of(spec.model),
            "library_name": "peft" if form == "adapter" else "transformers",
            "pipeline_tag": "text-generation",
            "tags": ["burnish", "sft", *(["lora"] if spec.lora else [])],
            **_licence_of(self.job.order.model_directory),
        }

    def _text(self, form: Form, step: int) -> str:
        base = _name_of(self.job.order.spec.model)
        what = {"full": base, "adapter": f"An adapter of {base}", "merged": f"{base} with an adapter added in"}[form]
        lines = [f"# {self.job.run.run_id}", "", f"{what}, fine-tuned with burnish.", ""]
        lines += [f"- {name}: {value}" for name, value in self._recipe(step).items()]
        if self.data_files:
            lines += ["", "## Data files", "", *_file_lines(self.data_files)]
        if config := self._config():
            lines += ["", "## Config", "", *_fenced(config)]
        return "\n".join(lines) + "\n"

    def _recipe(self, step: int) -> dict[str, str]:
        spec, facts, horizon = self.job.order.spec, self.job.data.facts, self.job.horizon
        last, validated = _last_words(self.job, step)
        found = {
            "Base model": f"`{_name_of(spec.model)}`",
            "Method": _method(spec),
            "Data": f"`{_name_of(spec.data.path)}`" if isinstance(spec.data, SourceData) else "made-up tokens",
            "Rows": f"{facts.rows:,} of {spec.row_tokens:,} tokens, from {facts.conversations_used:,} conversations",
            "Tokens in an epoch": f"{facts.tokens:,}, {facts.trained_tokens:,} of them trained",
            "Hash of an epoch's tokens and masks": f"`{facts.stream}`" if facts.stream else "",
            "Hash of all that was learnt from": f"`{last.stream}`" if last else "",
            "Steps": f"{step:,} of {horizon.steps:,}, {spec.rows_per_step} rows each "
            f"({step / horizon.steps_per_epoch:.2f} epochs)",
            "Optimizer": _settings(spec.optimizer.model_dump()),
            "Learning rate schedule": _settings(spec.schedule.model_dump()),
            "Seed": f"{spec.seed}, of the data {spec.data.seed}",
            "Loss of the last step": f"{last.values['loss/mean']:.4f}" if last and "loss/mean" in last.values else "",
            "Validation loss": f"{validated.values['val/loss']:.4f} after step {validated.step}" if validated else "",
            "Versions": _versions(with_peft=spec.lora is not None),
            "Date": datetime.fromtimestamp(last.at, tz=UTC).date().isoformat() if last else "",
        }
        return {name: value for name, value in found.items() if value}

    def _config(self) -> str:
        try:
            text = self.job.run.config.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return ""
        return without_paths(mask_secrets(text)).rstrip()


def without_paths(text: str) -> str:
    """Paths of a machine by their last part alone; those on a volume, `/volume/...`, stay."""

    def name(path: str) -> str:
        return path if path.startswith("/volume/") else _name_of(path)

    text = _QUOTED_PATH.sub(lambda found: f"{found[1]}{name(found[2])}{found[1]}", text)
    return _BARE_PATH.sub(lambda found: name(found[0]), text)


def _name_of(path: str) -> str:
    """A name or a path from a volume's root as it is, a path of this machine by its last part."""
    if path.startswith("/volume/") or not path.startswith(("/", "~", ".")):
        return path
    return Path(path).name or path


def _hash_data(job: Job) -> Iterator[tuple[str, str]]:
    order, data = job.order, job.order.spec.data
    if not isinstance(data, SourceData) or order.data_path is None:
        return
    root = order.data_path if order.data_path.is_dir() else order.data_path.parent
    try:
        sources = find_sources(order.data_path, data.splits, subsets=data.subsets, called=data.path)
        for path in dict.fromkeys(file.path for source in sources for file in source.files):
            yield path.relative_to(root).as_posix(), content_hash(path, order.store_directory / ".hashes")
    except (OSError, DataError):
        return  # the rows are kept apart from the data, which may be gone by the time that a run is resumed


def _last_words(job: Job, step: int) -> tuple[Step | None, Validated | None]:
    """The event of `step`, and of the newest validation up to it; both are near the diary's end."""
    size = job.run.diary.stat().st_size
    events, _ = read_events(job.run.diary, max(0, size - _DIARY_TAIL_BYTES))
    steps = [event for event in events if isinstance(event, Step) and event.step == step]
    validated = [event for event in events if isinstance(event, Validated) and event.step <= step]
    return (steps[-1] if steps else None), (validated[-1] if validated else None)


def _licence_of(base: Path) -> dict[str, Any]:
    """As the base model's own card says."""
    try:
        front = _FRONT_MATTER.match((base / CARD).read_text(encoding="utf-8-sig"))
        facts = yaml.safe_load(front[1]) if front else None
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return {}
    return {key: facts[key] for key in _LICENCE_KEYS if key in facts} if isinstance(facts, dict) else {}


def _method(spec: TrainSpec) -> str:
    return "all weights" if spec.lora is None else f"LoRA: {_settings(spec.lora.model_dump())}"


def _settings(wish: dict[str, Any]) -> str:
    """`cosine, warmup_steps 10, minimum 0.0`; what is not set is left out."""
    kind = wish.pop("kind", None)
    said = [f"{name} {value}" for name, value in wish.items() if value not in (None, False, ())]
    return ", ".join([*([kind] if kind else []), *said])


def _file_lines(files: dict[str, str]) -> Iterator[str]:
    for name, found in list(files.items())[:_MOST_FILES]:
        yield f"- `{name}`: SHA-256 `{found}`"
    if len(files) > _MOST_FILES:
        yield f"- and {len(files) - _MOST_FILES} more"


def _fenced(config: str) -> list[str]:
    fence = "`" * max(3, 1 + max((len(ticks) for ticks in re.findall("`+", config)), default=0))
    return [f"{fence}toml", config, fence]


def _versions(*, with_peft: bool) -> str:
    found = {"burnish": __version__, "Python": platform.python_version()}
    for package in ("torch", "transformers", *(["peft"] if with_peft else [])):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return ", ".join(f"{name} {each}" for name, each in found.items())
