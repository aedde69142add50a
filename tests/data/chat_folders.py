"""Chat templates to render with, and renderers loaded once.

The templates are this project's own: each behaves as the family's does, and `test_real_tokenizers` holds them
against the originals.
"""

import json
from functools import cache
from pathlib import Path

from burnish.data.render import ChatRenderer, load_chat_renderer
from burnish.data.render.qwen3 import TOOLS_AFTER, TOOLS_BEFORE
from burnish.spec.train import Renderer, RendererName

CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")

_TURNS = """
{%- macro begin(role) -%}{{ "<|im_start|>" ~ role ~ "\\n" }}{%- endmacro -%}
{%- macro turn(role, words) -%}{{ begin(role) ~ words ~ "<|im_end|>\\n" }}{%- endmacro -%}
"""

SMOLLM2 = (
    _TURNS
    + """
{%- if messages[0].role != "system" -%}
  {{- turn("system", "You are a helpful AI assistant named SmolLM, trained by Hugging Face") -}}
{%- endif -%}
{%- for each in messages -%}{{- turn(each.role, each.content) -}}{%- endfor -%}
{%- if add_generation_prompt -%}{{- begin("assistant") -}}{%- endif -%}
"""
)
"""ChatML that greets unless the row has a system turn."""

QWEN3 = (
    _TURNS
    + f"{{%- set before, after = {json.dumps(TOOLS_BEFORE)}, {json.dumps(TOOLS_AFTER)} -%}}"
    + """
{%- set query = namespace(at=messages | length - 1) -%}
{%- for each in messages -%}
  {%- set result = each.content.startswith("<tool_response>") and each.content.endswith("</tool_response>") -%}
  {%- if each.role == "user" and not result -%}{%- set query.at = loop.index0 -%}{%- endif -%}
{%- endfor -%}
{%- set opening = messages[0].content if messages[0].role == "system" else none -%}
{%- if tools -%}
  {{- begin("system") ~ ("" if opening is none else opening ~ "\\n\\n") ~ before -}}
  {%- for tool in tools -%}{{- (tool | tojson) ~ "\\n" -}}{%- endfor -%}
  {{- after ~ "<|im_end|>\\n" -}}
{%- elif opening is not none -%}
  {{- turn("system", opening) -}}
{%- endif -%}
{%- for each in messages -%}
  {%- if each.role == "user" or (each.role == "system" and loop.index0) -%}
    {{- turn(each.role, each.content) -}}
  {%- elif each.role == "tool" -%}
    {%- if loop.first or loop.previtem.role != "tool" -%}{{- "<|im_start|>user" -}}{%- endif -%}
    {{- "\\n<tool_response>\\n" ~ each.content ~ "\\n</tool_response>" -}}
    {%- if loop.last or loop.nextitem.role != "tool" -%}{{- "<|im_end|>\\n" -}}{%- endif -%}
  {%- elif each.role == "assistant" -%}
    {%- set thoughts, words = each.reasoning_content, each.content -%}
    {%- if thoughts is not string and "</think>" in words -%}
      {%- set thoughts = words.split("</think>")[0].rstrip("\\n").split("<think>")[-1].lstrip("\\n") -%}
      {%- set words = words.split("</think>")[-1].lstrip("\\n") -%}
    {%- endif -%}
    {%- set thoughts = thoughts if thoughts is string else "" -%}
    {{- begin("assistant") -}}
    {%- if loop.index0 > query.at and (loop.last or thoughts) -%}
      {{- "<think>\\n" ~ thoughts.strip("\\n") ~ "\\n</think>\\n\\n" ~ words.lstrip("\\n") -}}
    {%- else -%}
      {{- words -}}
    {%- endif -%}
    {%- for call in each.tool_calls or [] -%}
      {%- set what = call.function or call -%}
      {%- set given = what.arguments if what.arguments is string else what.arguments | tojson -%}
      {{- "\\n" if words or not loop.first -}}
      {{- '<tool_call>\\n{"name": "' ~ what.name ~ '", "arguments": ' ~ given ~ "}\\n</tool_call>" -}}
    {%- endfor -%}
    {{- "<|im_end|>\\n" -}}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- begin("assistant") -}}
  {%- if enable_thinking is false -%}{{- "<think>\\n\\n</think>\\n\\n" -}}{%- endif -%}
{%- endif -%}
"""
)
"""ChatML with a think block in the last answer, thoughts taken out of earlier ones, and tools."""


@cache
def load(folder: Path, name: RendererName = "auto", enable_thinking: bool = True) -> ChatRenderer:
    return load_chat_renderer(folder, Renderer(name=name, enable_thinking=enable_thinking))
