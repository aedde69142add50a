import pytest
from chat_folders import load

from burnish.data.conversations import Conversation, Image, Message, RowFault
from burnish.spec.train import LossMask


@pytest.mark.parametrize("name", ["auto", "chatml", "qwen3"])
@pytest.mark.parametrize("history", ["split", "drop"])
def test_a_renderer_that_shows_no_images_leaves_none_out_in_silence(tiny, name, history):
    seen = Message("user", "Which colour?", images=(Image(0, 1, 1, b""),))
    conversation = Conversation((seen, Message("assistant", "Red.")))
    with pytest.raises(RowFault, match=r"messages\[0\] has images, and the renderer `.*` has none"):
        load(tiny, name).write(conversation, LossMask(), history=history)
