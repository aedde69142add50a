"""Real chat templates to render with, and renderers loaded once."""

from functools import cache
from pathlib import Path

from burnish.data.render import ChatRenderer, load_chat_renderer
from burnish.spec.train import Renderer, RendererName

HERE = Path(__file__).parent
QWEN3 = (HERE / "qwen3.jinja").read_text()
"""Qwen3's own template, Apache-2.0."""
SMOLLM2 = (HERE / "smollm2.jinja").read_text()
"""SmolLM2-Instruct's own template, Apache-2.0."""
CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


@cache
def load(folder: Path, name: RendererName = "auto", enable_thinking: bool = True) -> ChatRenderer:
    return load_chat_renderer(folder, Renderer(name=name, enable_thinking=enable_thinking))
