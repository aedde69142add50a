"""Which renderer a model folder and a wish come to."""

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from burnish.data.conversations import Conversation, Message, RowFault, ToolCall
from burnish.data.render.chatml import ChatML, SmolLM
from burnish.data.render.deepseek import DeepSeekR1, DeepSeekV3
from burnish.data.render.gemma import Gemma3
from burnish.data.render.gemma4 import Gemma4
from burnish.data.render.glm import GLM5, GLM45, GLM53
from burnish.data.render.gpt_oss import CUTOFF, IDENTITY, GptOss
from burnish.data.render.image_grid import read_image_grid
from burnish.data.render.kimi_k2 import KimiK2
from burnish.data.render.llama3 import DATE, Llama3
from burnish.data.render.mistral import Mistral
from burnish.data.render.olmo import Olmo
from burnish.data.render.phi4 import Phi4
from burnish.data.render.pieces import History, Piece, Script
from burnish.data.render.prime_qwen3 import PrimeQwen3
from burnish.data.render.qwen3 import Qwen3
from burnish.data.render.qwen3_vl import Qwen3VL
from burnish.data.render.qwen35 import Qwen35
from burnish.data.render.renderer import ChatRenderer
from burnish.data.render.template import TemplateScript
from burnish.data.render.vocabulary import Vocabulary
from burnish.errors import ConfigError, DataError, ModelError
from burnish.spec.train import LossMask, Renderer

_NAME_ONE = 'Name a renderer: [renderer] name = "chatml".'


def load_chat_renderer(model_directory: Path, wish: Renderer, *, allow_control_tokens: bool = False) -> ChatRenderer:
    """The renderer for a model folder. `ModelError` if the folder lacks what the wish needs."""
    vocabulary = Vocabulary(model_directory / "tokenizer.json")
    config = _read_json(model_directory / "tokenizer_config.json")
    variables = _special_variables(config)
    stops = _stop_ids(model_directory)
    end = variables.get("eos_token") or (vocabulary.token_of(min(stops)) if stops else None)
    script = _choose_script(model_directory, wish, vocabulary, config, variables)
    if isinstance(script, GLM5):
        stops += [number for mark in script.ends if (number := vocabulary.id_of(mark)) is not None]
    opening = _opening(vocabulary, config, variables.get("bos_token"), script)
    return ChatRenderer(
        vocabulary, script, opening=opening, end_of_text=end, stops=stops, allow_control_tokens=allow_control_tokens
    )


def may_show_images(model_directory: Path, wish: Renderer) -> bool:
    """Whether a row's images may become tokens, told without opening the tokenizer."""
    if wish.name == "auto":
        return (model_directory / "preprocessor_config.json").is_file()
    return wish.name in NATIVE and NATIVE[wish.name](wish).shows_images


class AutoScript:
    """The model's own template; written natively where native code is known to write the same, as that is faster."""

    needs = ()

    def __init__(self, template: TemplateScript, native: Script | None, *, with_tools: bool = False) -> None:
        self._template = template
        self._native = native
        self._with_tools = with_tools
        """Whether the native script is known to write tools and their calls as the template does."""
        self.name = f"auto ({native.name})" if native else "auto (chat template)"
        self.end_of_turn = native.end_of_turn if native else template.end_of_turn
        self.shows_images = native is not None and native.shows_images

    def write(self, conversation: Conversation, loss_mask: LossMask) -> list[Piece]:
        return self._script(conversation).write(conversation, loss_mask)

    def write_prompt(self, messages: tuple[Message, ...]) -> list[Piece]:
        return self._script(Conversation(messages)).write_prompt(messages)

    def history(self, conversation: Conversation) -> History:
        return self._script(conversation).history(conversation)

    def _script(self, conversation: Conversation) -> Script:
        if self._native is None:
            return self._template
        messages = conversation.messages
        if self._with_tools or not (conversation.tools or any(message.tool_calls for message in messages)):
            return self._native
        if any(message.images for message in messages):
            raise RowFault("the row has images and tools, and the model's chat template is not known to write both")
        return self._template


class NoScript:
    """A model without a chat template: plain text can be trained, conversations cannot."""

    name = "auto (no chat template)"
    end_of_turn = None
    needs = ()
    shows_images = False

    def write(self, conversation: Conversation, loss_mask: LossMask) -> list[Piece]:
        raise DataError("The model has no chat template to render conversations with.", hint=_NAME_ONE)

    def write_prompt(self, messages: tuple[Message, ...]) -> list[Piece]:
        raise DataError("The model has no chat template to chat with.", hint=_NAME_ONE)

    def history(self, conversation: Conversation) -> History:
        return History()


NATIVE: dict[str, Callable[[Renderer], Script]] = {
    "chatml": lambda wish: ChatML(),
    "smollm": lambda wish: SmolLM(),
    "qwen3": lambda wish: Qwen3(wish.enable_thinking is not False),
    "prime-qwen3": lambda wish: PrimeQwen3(),
    "qwen3-vl": lambda wish: Qwen3VL(wish.add_vision_id is True),
    "qwen3.5": lambda wish: Qwen35("qwen3.5", wish.enable_thinking is not False, False, wish.add_vision_id is True),
    "qwen3.6": lambda wish: Qwen35(
        "qwen3.6", wish.enable_thinking is not False, wish.preserve_thinking is True, wish.add_vision_id is True
    ),
    "glm-4.5": lambda wish: GLM45(enable_thinking=wish.enable_thinking is not False),
    "glm-5": lambda wish: GLM5("glm-5", wish.enable_thinking is not False, wish.clear_thinking is not False),
    "glm-5.1": lambda wish: GLM5("glm-5.1", wish.enable_thinking is not False, wish.clear_thinking is not False),
    "glm-5.3": lambda wish: GLM53(
        clear_thinking=wish.clear_thinking is True, reasoning_effort=wish.reasoning_effort or "max"
    ),
    "kimi-k2": lambda wish: KimiK2(),
    "llama-3": lambda wish: Llama3(wish.date_string or DATE, wish.tools_in_user_message is not False),
    "gemma3": lambda wish: Gemma3(),
    "gemma4": lambda wish: Gemma4(wish.enable_thinking is True, wish.preserve_thinking is True),
    "gpt-oss": lambda wish: GptOss(
        wish.reasoning_effort or "medium",
        wish.conversation_start_date,
        wish.use_system_prompt is not False,
        wish.knowledge_cutoff or CUTOFF,
        wish.model_identity or IDENTITY,
        wish.auto_drop_analysis is not False,
    ),
    "deepseek-v3": lambda wish: DeepSeekV3(),
    "deepseek-r1": lambda wish: DeepSeekR1(),
    "mistral": lambda wish: Mistral(),
    "phi-4": lambda wish: Phi4(),
    "olmo": lambda wish: Olmo(),
}
"""How each named renderer is made from its switches."""


def _choose_script(
    folder: Path, wish: Renderer, vocabulary: Vocabulary, config: dict[str, Any], variables: dict[str, str]
) -> Script:
    if wish.name == "auto":
        source = _template_source(folder, config)
        if source is None:
            return NoScript()
        template = TemplateScript(source, vocabulary, variables)
        plain = Renderer()
        able = (_fitted(make(plain), folder) for make in NATIVE.values())
        native = _twin(template, (script for script in able if _missing(vocabulary, script) is None))
        with_tools = native is not None and all(_agree(template, native, probe) for probe in _TOOL_PROBES)
        return AutoScript(template, native, with_tools=with_tools)
    if wish.name not in NATIVE:
        raise ConfigError(f"The renderer `{wish.name}` is not built into this version.", hint=_FOLLOW)
    script = _fitted(NATIVE[wish.name](wish), folder)
    source = _template_source(folder, config) if isinstance(script, Qwen35) and wish.enable_thinking is None else None
    if source is not None and isinstance(script, Qwen35):
        script = _thinking_as(TemplateScript(source, vocabulary, variables), script)
    if missing := _missing(vocabulary, script):
        raise ModelError(
            f"The renderer `{wish.name}` needs the token {missing}, which {folder.name}'s tokenizer lacks.",
            hint=_FOLLOW,
        )
    return script


_FOLLOW = 'Set [renderer] name = "auto" to follow the model\'s own chat template.'


def _fitted(script: Script, folder: Path) -> Script:
    """With the folder's word on how images are resized, where the family shows any."""
    return replace(script, grid=read_image_grid(folder)) if isinstance(script, Qwen3VL | Qwen35) else script


def _thinking_as(template: TemplateScript, script: Qwen35) -> Qwen35:
    """Small models of the family do not think unless they are told to, large ones do: their own templates say it."""
    off, asked = replace(script, enable_thinking=False), (Message("user", "a"),)
    try:
        prompt = template.text(Conversation(asked), prompt=True)
    except RowFault:
        return script
    return off if prompt == "".join(piece.text for piece in off.write_prompt(asked)) else script


def _missing(vocabulary: Vocabulary, script: Script) -> str | None:
    return next((token for token in script.needs if not vocabulary.holds(token)), None)


def _twin(template: TemplateScript, scripts: Iterable[Script]) -> Script | None:
    """The script that writes, letter by letter, what the template does on every probe."""
    return next((script for script in scripts if all(_agree(template, script, probe) for probe in _PROBES)), None)


def _agree(template: TemplateScript, script: Script, probe: Conversation) -> bool:
    """Whether both write the same, or both refuse."""
    try:
        written = "".join(piece.text for piece in script.write(probe, LossMask()))
        prompt = "".join(piece.text for piece in script.write_prompt(probe.messages))
    except RowFault:
        return not probe.tools and _refuses(template, probe)
    bare = replace(probe, tools=())
    try:
        text = template.text(probe, prompt=False)
        # A turn that the template leaves open, its script closes.
        return written in (text, text + (script.end_of_turn or "")) and prompt == template.text(bare, prompt=True)
    except RowFault:
        return False


def _refuses(template: TemplateScript, probe: Conversation) -> bool:
    try:
        template.write(probe, LossMask())
    except RowFault:
        return True
    return False


def _said(*turns: str) -> tuple[Message, ...]:
    roles = {"s": "system", "u": "user", "a": "assistant", "t": "tool"}
    return tuple(Message(roles[turn[0]], turn[2:]) for turn in turns)  # type: ignore[arg-type]


_THINKS = (
    Message("user", "a"),
    Message("assistant", "b", "c"),
    Message("user", "d"),
    Message("assistant", "e", " f \n"),
)
_PROBES = tuple(
    Conversation(messages)
    for messages in (
        _said("u:Hello", "a:Hi"),
        _said("u:Hello", "a:"),
        _said("s:Be brief.", "u:Hello", "a:Hi"),
        _said("s:", "u:Hello", "a:Hi", "u:Again", "a:Hi again"),
        _said("u:  two\n\n spaces \n", "a:\n  kept  \n\n", "u:\tso?\n", "a: yes "),
        _said("u:a", "a:<think>\nb\n</think>\n\nc", "u:d", "a:<think>\n\ne\n</think>\n\nf"),
        _said("u:a", "a:b</think>c<think>", "u:<tool_response>d</tool_response>", "a:e"),
        _said("u:a", "s:b", "u:c", "u:d", "a:e", "a:f", "u:g"),
        _said("u:a", "a:b", "t:c", "t:d", "a:e"),
        _THINKS,
    )
)
_TOOLS: tuple[dict[str, Any], ...] = (
    {"type": "function", "function": {"name": "f", "description": " é <b>\n", "parameters": {"type": "object"}}},
    {"type": "function", "function": {"name": "g", "parameters": {"properties": {"a": {"type": "string"}}}}},
)
_CALLS = (
    ToolCall("f", {"a": 'é <b>"\n', "b": [1, {"c": None}], "d": True, "e": 0.5}, "functions.f:0"),
    ToolCall("g", {}, "functions.g:1"),
)
_RESULTS = (
    Message("tool", "x\n", call_id="functions.f:0", tool_name="f"),
    Message("tool", "", call_id="functions.g:1", tool_name="g"),
)
_CALLED = (
    *_said("u:a"),
    Message("assistant", "b.", tool_calls=_CALLS),
    *_RESULTS,
    Message("assistant", "", "c", tool_calls=_CALLS[:1]),
    *_RESULTS[:1],
    *_said("a:d", "u:e"),
)
_TOOL_PROBES = (
    Conversation(_said("u:a", "a:b"), tools=_TOOLS),
    Conversation(_said("s:", "u:a", "a:b"), tools=_TOOLS),
    Conversation((*_said("s:S\n"), *_CALLED), tools=_TOOLS[:1]),
    Conversation((*_CALLED, *_said("a:f"))),
    Conversation((*_CALLED, Message("assistant", " f ", " g ", tool_calls=_CALLS)), tools=_TOOLS),
)


def _template_source(folder: Path, config: dict[str, Any]) -> str | None:
    own = folder / "chat_template.jinja"
    if own.is_file():
        try:
            return own.read_text(encoding="utf-8")
        except ValueError as error:
            raise ModelError(f"{own} is not UTF-8 text ({error}).", hint=_NAME_ONE) from error
    value = config.get("chat_template")
    if isinstance(value, list):
        named = {each.get("name"): each.get("template") for each in value if isinstance(each, dict)}
        value = named.get("default")
    return value if isinstance(value, str) else None


def _special_variables(config: dict[str, Any]) -> dict[str, str]:
    """`bos_token` and its like, which a config holds as text or as an object with `content`."""
    found = {}
    for key in ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token"):
        value = config.get(key)
        text = value.get("content") if isinstance(value, dict) else value
        if isinstance(text, str):
            found[key] = text
    return found


def _opening(vocabulary: Vocabulary, config: dict[str, Any], bos: str | None, script: Script) -> str:
    """What plain text begins with: what the tokenizer puts there, else the `bos_token` that turns begin with."""
    if vocabulary.opening or not bos:
        return vocabulary.opening
    if config.get("add_bos_token"):
        return bos
    try:
        prompt = script.write_prompt((Message("user", "a"),))
    except DataError:
        return ""
    return bos if prompt and prompt[0].text.startswith(bos) else ""


def _stop_ids(folder: Path) -> list[int]:
    for name in ("generation_config.json", "config.json"):
        value = _read_json(folder / name).get("eos_token_id")
        ids = value if isinstance(value, list) else [value]
        if value is not None:
            return [each for each in ids if isinstance(each, int) and 0 <= each < 2**32]
    return []


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is not valid JSON ({error}).") from error
    return value if isinstance(value, dict) else {}
