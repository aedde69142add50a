"""Prime's `[renderer]`: a table per family of models, each with the switches of that family's own template."""

from typing import Annotated, Literal

from burnish.dialects.schema import Count, NoEffect, Obeyed, Refused, Section

_TEXT = Obeyed("how a conversation becomes tokens")
_ROLLOUTS = NoEffect("it steers rollouts, not the text that is trained")
_CACHE = NoEffect("images are not kept in memory")
_THINKING = Obeyed("the template's switch for thinking; off, the prompt holds an empty think block")
_CLEAR = Obeyed("leave the thoughts of earlier turns out, as the template does")
_PRESERVE = Obeyed("keep the thoughts of earlier turns, as the template does")
_EFFORT = Obeyed("the effort that the system turn asks for")
_COUNTED = Obeyed("number the images in the text")


class Shared(Section):
    thinking_retention: Annotated[Literal["tool_cycle", "all"] | None, _ROLLOUTS] = None


class Plain(Shared):
    name: Annotated[
        Literal[
            "auto", "prime-qwen3", "chatml", "smollm", "gemma3", "mistral", "phi-4", "olmo",
            "deepseek-v3", "deepseek-r1",
        ],
        _TEXT,
    ]  # fmt: skip


class Default(Shared):
    name: Annotated[Literal["default"], Obeyed("read as auto: the model's own chat template")]
    tool_parser: Annotated[str | None, _ROLLOUTS] = None
    reasoning_parser: Annotated[str | None, _ROLLOUTS] = None


class Thinking(Shared):
    name: Annotated[Literal["qwen3", "glm-4.5"], _TEXT]
    enable_thinking: Annotated[bool, _THINKING] = True


class KimiK2(Shared):
    name: Annotated[Literal["kimi-k2"], _TEXT]
    enable_thinking: Annotated[bool, NoEffect("Kimi K2's template has no such switch")] = True


class Qwen35(Shared):
    name: Annotated[Literal["qwen3.5"], _TEXT]
    enable_thinking: Annotated[bool | None, _THINKING] = None
    add_vision_id: Annotated[bool, _COUNTED] = False
    image_cache_max: Annotated[Count, _CACHE] = 256


class Qwen36(Shared):
    name: Annotated[Literal["qwen3.6"], _TEXT]
    enable_thinking: Annotated[bool | None, _THINKING] = None
    preserve_thinking: Annotated[bool, _PRESERVE] = False
    add_vision_id: Annotated[bool, _COUNTED] = False
    image_cache_max: Annotated[Count, _CACHE] = 256


class Qwen3VL(Shared):
    name: Annotated[Literal["qwen3-vl"], _TEXT]
    add_vision_id: Annotated[bool, _COUNTED] = False
    image_cache_max: Annotated[Count, _CACHE] = 256


class Gemma4(Shared):
    name: Annotated[Literal["gemma4"], _TEXT]
    enable_thinking: Annotated[bool, _THINKING] = False
    preserve_thinking: Annotated[bool, _PRESERVE] = False
    image_cache_max: Annotated[Count, _CACHE] = 256


class GLM5(Shared):
    name: Annotated[Literal["glm-5", "glm-5.1"], _TEXT]
    enable_thinking: Annotated[bool, _THINKING] = True
    clear_thinking: Annotated[bool, _CLEAR] = True


class GLM53(Shared):
    name: Annotated[Literal["glm-5.3"], _TEXT]
    clear_thinking: Annotated[bool, _CLEAR] = False
    reasoning_effort: Annotated[Literal["low", "high", "max"], _EFFORT] = "max"


class Llama3(Shared):
    name: Annotated[Literal["llama-3"], _TEXT]
    date_string: Annotated[str, Obeyed("the date in the system turn")] = "26 Jul 2024"
    tools_in_user_message: Annotated[bool, Obeyed("tools stand in the first user turn, else in the system turn")] = True


class GptOss(Shared):
    name: Annotated[Literal["gpt-oss"], _TEXT]
    reasoning_effort: Annotated[Literal["low", "medium", "high"], _EFFORT] = "medium"
    conversation_start_date: Annotated[
        str | None, Obeyed("the date in the system turn; absent: no date, so that no day trains other tokens")
    ] = None
    use_system_prompt: Annotated[bool, Obeyed("write the system turn of the harmony format")] = True
    knowledge_cutoff: Annotated[str | None, Obeyed("the cutoff in the system turn; absent: 2024-06")] = None
    model_identity: Annotated[str | None, Obeyed("who the system turn says it is; absent: ChatGPT, by OpenAI")] = None
    auto_drop_analysis: Annotated[bool, Obeyed("leave the analysis of earlier turns out")] = True


class Known(Section):
    verdict = Refused(
        "this renderer is known but not built into this version",
        hint='Use name = "auto": the model\'s own chat template.',
    )
    name: Annotated[
        Literal[
            "qwen3.8", "hy3", "inkling", "kimi-k2.5", "laguna-xs.2", "laguna-m.1", "laguna-xs-2.1", "laguna-s-2.1",
            "minimax-m2", "nemotron-3", "nemotron-3-ultra", "nemotron-3.5", "deepseek-v4", "custom",
        ],
        Obeyed("refused"),
    ]  # fmt: skip


Renderer = (
    Plain | Default | Thinking | KimiK2 | Qwen35 | Qwen36 | Qwen3VL | Gemma4 | GLM5 | GLM53 | Llama3 | GptOss | Known
)
SWITCHES = (
    "enable_thinking", "clear_thinking", "preserve_thinking", "reasoning_effort", "add_vision_id", "date_string",
    "tools_in_user_message", "conversation_start_date", "use_system_prompt", "knowledge_cutoff", "model_identity",
    "auto_drop_analysis",
)  # fmt: skip
"""Keys that go into a `spec.train.Renderer` under the same name, where they are set."""
