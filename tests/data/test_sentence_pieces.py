"""A vocabulary in Llama 2's manner: it marks the start of a text, and puts `<s>` before one by itself."""

import json
from pathlib import Path

import pytest
from chat_folders import load
from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import Metaspace as MetaspaceDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import Metaspace
from tokenizers.processors import TemplateProcessing
from tokenizers.trainers import BpeTrainer

from burnish.data.conversations import Conversation, Message, RowFault
from burnish.data.proof import lost_turn, prove_sample
from burnish.spec.train import LossMask

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{% if message.role == 'user' %}[INST] {{ message.content }} [/INST]"
    "{% else %} {{ message.content }}{{ eos_token }}{% endif %}{% endfor %}"
)
WORDS = "Hello there good day to you Once more upon a time [INST] Hello [/INST] Good day. how are you"


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("llama")
    tokenizer = Tokenizer(BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = Metaspace(prepend_scheme="first")
    tokenizer.decoder = MetaspaceDecoder(prepend_scheme="first")
    special = ["<unk>", "<s>", "</s>"]
    tokenizer.train_from_iterator([WORDS] * 3, BpeTrainer(vocab_size=200, special_tokens=special, show_progress=False))
    tokenizer.add_special_tokens([AddedToken(each, special=True) for each in special])
    tokenizer.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"bos_token": {"content": "<s>"}, "eos_token": "</s>", "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


GREETING = Conversation((Message("user", "Hello there"), Message("assistant", "Good day.")))


@pytest.mark.parametrize("conversation", [GREETING, Conversation((), text="Once more")])
def test_a_row_begins_with_one_bos_and_never_trains_it(llama, conversation):
    rendered = load(llama).render(conversation, LossMask())
    assert rendered.token_ids.tolist().count(1) == 1 and rendered.token_ids[0] == 1
    assert 1 not in rendered.token_ids[rendered.loss_mask > 0]


def test_what_is_rendered_is_what_the_whole_text_encodes_to(llama):
    renderer = load(llama)
    whole = Tokenizer.from_file(str(llama / "tokenizer.json"))
    text = "<s>[INST] Hello there [/INST] Good day.</s>"
    rendered = renderer.render(GREETING, LossMask())
    assert rendered.token_ids.tolist() == whole.encode(text, add_special_tokens=False).ids
    assert renderer.decode(rendered.token_ids[rendered.loss_mask > 0]).strip() == "Good day.</s>"


def test_a_control_token_in_text_is_refused_where_it_cannot_be_written_as_letters(llama):
    with pytest.raises(RowFault, match="holds a control token"):
        load(llama).render(Conversation((Message("user", "</s>"), Message("assistant", "a"))), LossMask())


def test_a_proof_is_told_from_whole_words_that_swallow_the_space_before_them(llama):
    renderer = load(llama)
    conversation = Conversation((Message("user", "Hello"), Message("assistant", "Good day")))
    [sample] = renderer.write(conversation, LossMask())
    row = prove_sample(renderer, sample.pieces, "x:1")
    assert "".join(piece.text for piece in row.pieces) == renderer.decode(row.token_ids)
    assert [piece.text.strip() for piece in row.pieces if piece.trained] == ["Good day</s>"]
    letters = [piece.trained for piece in row.pieces for _ in piece.text]
    assert [letters[end - 1] for end in row.token_ends] == [bool(flag) for flag in row.trained]
    assert lost_turn(conversation, ["Good day</s>"], LossMask()) is None
    assert lost_turn(conversation, ["Hello</s>"], LossMask()) == 1
