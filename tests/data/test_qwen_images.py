"""Images in Qwen's forms: as many tokens as the image processor makes patches for, in their places, never trained."""

import io
import json
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import renderers
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as Pixels
from transformers import PreTrainedTokenizerFast
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from burnish.data.conversations import Conversation, Image, Message, RowFault
from burnish.data.render import ChatRenderer, load_chat_renderer
from burnish.data.render.image_grid import ImageGrid, read_image_grid
from burnish.data.render.pieces import control
from burnish.errors import ModelError
from burnish.spec.train import LossMask, Renderer
from fetch import Unreachable, fetch_qwen3

pytestmark = pytest.mark.weights

SMALL = {"patch_size": 16, "merge_size": 2, "size": {"shortest_edge": 1024, "longest_edge": 65536}}
NAMES = ["qwen3-vl", "qwen3.5", "qwen3.6"]
SIDES = st.integers(1, 3000)


@pytest.mark.parametrize(
    "config", [SMALL, {}, {"patch_size": 16}, {"min_pixels": 4096, "max_pixels": 50000}, {"merge_size": 3}]
)
@settings(deadline=None, max_examples=80)
@given(width=SIDES, height=SIDES)
def test_an_image_has_the_tokens_that_the_image_processor_makes(tmp_path_factory, config, width, height):
    grid = _grid(tmp_path_factory.mktemp("model"), config)
    image = Image(0, width, height, b"")
    try:
        patches = Qwen2VLImageProcessorPil(**config).get_number_of_image_patches(height, width, {})
    except ValueError:
        with pytest.raises(RowFault, match="more than 200 times"):
            grid.tokens(image)
    else:
        assert grid.tokens(image) == patches // grid.merge**2


def _grid(folder: Path, config: dict[str, Any]) -> ImageGrid:
    (folder / "preprocessor_config.json").write_text(json.dumps(config))
    return read_image_grid(folder)


def test_without_a_word_on_images_they_are_resized_as_for_qwen3_vl(tmp_path):
    published = {"patch_size": 16, "merge_size": 2, "size": {"shortest_edge": 65536, "longest_edge": 16777216}}
    assert read_image_grid(tmp_path) == _grid(tmp_path, published)


@pytest.mark.parametrize("text", ["[", "[]", '{"patch_size": "x"}', '{"patch_size": 0}', '{"size": 3}'])
def test_a_broken_word_on_images_is_named(tmp_path, text):
    (tmp_path / "preprocessor_config.json").write_text(text)
    with pytest.raises(ModelError, match=r"preprocessor_config\.json"):
        read_image_grid(tmp_path)


@cache
def picture(width: int, height: int) -> bytes:
    file = io.BytesIO()
    Pixels.new("RGB", (width, height), (width % 256, height % 256, 7)).save(file, "PNG")
    return file.getvalue()


def shown(at: int, width: int = 40, height: int = 70) -> Image:
    return Image(at, width, height, picture(width, height))


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        base = fetch_qwen3()
    except Unreachable as reason:
        pytest.skip(str(reason))
    place = tmp_path_factory.mktemp("models") / "vision"
    place.mkdir()
    for file in base.iterdir():
        (place / file.name).symlink_to(file.resolve())
    (place / "preprocessor_config.json").write_text(json.dumps(SMALL))
    return place


@cache
def ours(folder: Path, name: str, numbered: bool = False) -> ChatRenderer:
    return load_chat_renderer(folder, Renderer.model_validate({"name": name, "add_vision_id": numbered}))


@cache
def theirs(folder: Path, name: str, numbered: bool) -> Any:
    kinds: dict[str, Any] = {
        "qwen3-vl": (renderers.Qwen3VLRendererConfig, "Qwen3VLRenderer"),
        "qwen3.5": (renderers.Qwen35RendererConfig, "Qwen35Renderer"),
        "qwen3.6": (renderers.Qwen36RendererConfig, "Qwen36Renderer"),
    }
    config, kind = kinds[name]
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    processor = SimpleNamespace(image_processor=Qwen2VLImageProcessorPil(**SMALL))
    return getattr(renderers, kind)(tokenizer, config(add_vision_id=numbered), processor=processor)


TEXTS = st.text("ab. é1", max_size=8).map(str.strip)
SIZES = st.sampled_from([(40, 70), (64, 64), (300, 200)])


@st.composite
def illustrated(draw: st.DrawFn, role: str) -> Message:
    text, images = "", []
    for _ in range(draw(st.integers(0, 3))):
        text += draw(TEXTS)
        images.append(shown(len(text), *draw(SIZES)))
    text += draw(TEXTS)
    return Message(role, text, images=tuple(images))  # type: ignore[arg-type]


def as_parts(message: Message) -> dict[str, Any]:
    parts, start = [], 0
    for image in message.images:
        parts += [{"type": "text", "text": message.content[start : image.at]}]
        parts += [{"type": "image", "image": image.source}]
        start = image.at
    return {"role": message.role, "content": [*parts, {"type": "text", "text": message.content[start:]}]}


@pytest.mark.parametrize("numbered", [False, True])
@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=15)
@given(asked=illustrated("user"), answered=illustrated("tool"), again=illustrated("user"))
def test_tokens_among_images_are_the_packages(folder, name, numbered, asked, answered, again):
    said = Message("assistant", "A thing.")
    messages = (Message("system", "Look."), asked, said, answered, said, again, said)
    parts: Any = [as_parts(each) for each in messages]
    sample = renderers.build_training_sample(theirs(folder, name, numbered), parts)
    rendered = ours(folder, name, numbered).render(Conversation(messages), LossMask())
    assert rendered.token_ids.tolist() == list(sample.token_ids)


@pytest.mark.parametrize("name", NAMES)
def test_an_image_is_one_piece_that_no_loss_mask_trains(folder, name):
    image = shown(4)
    message = Message("user", "See this?", images=(image,))
    row = Conversation((message, Message("assistant", "Yes.")))
    renderer = ours(folder, name)
    (sample,) = renderer.write(row, LossMask(user=True))
    (piece,) = (each for each in sample.pieces if each.image is not None)
    assert piece.image is image and not piece.trained and piece.control
    many = renderer.encode([[piece]])
    assert len(many.token_ids) == read_image_grid(folder).tokens(image) + 2
    said = "".join(each.text for each in sample.pieces if each.trained)
    assert said.startswith("See this?") and said.endswith("Yes.<|im_end|>")


@pytest.mark.parametrize("name", NAMES)
def test_what_would_be_left_out_is_refused(folder, name):
    renderer, ask, say = ours(folder, name), Message("user", "a"), Message("assistant", "b")
    with pytest.raises(RowFault, match=r"messages\[1\] has images"):
        renderer.render(Conversation((ask, Message("assistant", "b", images=(shown(0),)))), LossMask())
    with pytest.raises(RowFault, match=r"messages\[1\] is a system turn"):
        renderer.render(Conversation((ask, Message("system", "s"), say)), LossMask())


def test_qwen3_vl_has_no_place_for_thoughts(folder):
    row = Conversation((Message("user", "a"), Message("assistant", "b", "hm")))
    with pytest.raises(RowFault, match="reasoning_content is not rendered by `qwen3-vl`"):
        ours(folder, "qwen3-vl").render(row, LossMask())


def test_a_picture_token_in_a_rows_text_is_letters(folder):
    row = Conversation((Message("user", "<|image_pad|>"), Message("assistant", "<|vision_start|>")))
    for name in NAMES:
        renderer = ours(folder, name)
        rendered = renderer.render(row, LossMask()).token_ids.tolist()
        pad, start = (
            renderer.encode([[control(token)]]).token_ids[0] for token in ("<|image_pad|>", "<|vision_start|>")
        )
        assert pad not in rendered and start not in rendered
        assert "<|image_pad|>" in renderer.decode(rendered)
