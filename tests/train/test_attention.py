import itertools
from typing import Any

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from burnish.errors import ModelError
from burnish.train.attention import document_attention

# T tokens of a stream, H query heads, K key-value heads, S size of a head.


def _make(tokens: int, heads: int, key_value_heads: int) -> list[torch.Tensor]:
    torch.manual_seed(tokens)
    return [torch.randn(1, count, tokens, 8, requires_grad=True) for count in (heads, key_value_heads, key_value_heads)]


def _attend(inputs: list[torch.Tensor], **settings: Any) -> torch.Tensor:
    query, key, value = inputs
    return document_attention(torch.nn.Module(), query, key, value, None, **settings)[0]


def _by_mask(inputs: list[torch.Tensor], lengths: list[int], window: int | None) -> torch.Tensor:
    """The same by one dense [T, T] mask."""
    document = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    place = torch.arange(len(document))
    behind = place[:, None] - place[None, :]
    mask = (document[:, None] == document[None, :]) & (behind >= 0)
    if window is not None:
        mask &= behind < window
    query, key, value = inputs
    return scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=0.3, enable_gqa=True).transpose(1, 2)


@pytest.mark.parametrize("lengths", [[7], [1, 1, 1], [3, 9, 2, 5], [16, 1]])
@pytest.mark.parametrize("heads", [(4, 4), (4, 2), (6, 1)])
@pytest.mark.parametrize("window", [None, 4])
def test_documents_attend_as_under_a_dense_mask(lengths: list[int], heads: tuple[int, int], window: int | None) -> None:
    inputs = _make(sum(lengths), *heads)
    ours = _attend(inputs, lengths=lengths, scaling=0.3, sliding_window=window)
    theirs = _by_mask(inputs, lengths, window)
    torch.testing.assert_close(ours, theirs)
    upstream = torch.randn_like(theirs)
    for one, other in zip(
        torch.autograd.grad(ours, inputs, upstream), torch.autograd.grad(theirs, inputs, upstream), strict=True
    ):
        torch.testing.assert_close(one, other)


def test_a_document_feels_nothing_of_its_neighbours() -> None:
    lengths = [5, 8, 3]
    edges = [0, *itertools.accumulate(lengths)]
    inputs = [each.detach() for each in _make(sum(lengths), 4, 2)]
    before = _attend(inputs, lengths=lengths)
    for number in range(len(lengths)):
        changed = [each.clone() for each in inputs]
        for each in changed:
            each[:, :, edges[number] : edges[number + 1]] += 1.0
        after = _attend(changed, lengths=lengths)
        same = [torch.equal(before[:, start:end], after[:, start:end]) for start, end in itertools.pairwise(edges)]
        assert same == [other != number for other in range(len(lengths))]


def test_attention_that_is_not_understood_is_refused_by_name() -> None:
    inputs = _make(4, 2, 2)
    with pytest.raises(ModelError, match="softcap"):
        _attend(inputs, lengths=[4], softcap=50.0)
