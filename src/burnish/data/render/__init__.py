"""From a conversation to tokens with a mask."""

from burnish.data.render.choose import load_chat_renderer
from burnish.data.render.renderer import ChatRenderer, Rendered, RenderedMany, Sample

__all__ = ["ChatRenderer", "Rendered", "RenderedMany", "Sample", "load_chat_renderer"]
