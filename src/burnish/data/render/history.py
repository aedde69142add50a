"""One conversation, several samples: where a family writes earlier turns without their thoughts, each is trained apart.

A model is asked for a turn when nothing follows it, and that is how it is trained: `messages[:k + 1]` for turn k.
"""

from dataclasses import replace

from burnish.data.conversations import Conversation, RowFault
from burnish.data.render.pieces import Script, is_trained
from burnish.spec.train import LossMask


def split_turns(conversation: Conversation, script: Script, loss_mask: LossMask) -> list[Conversation]:
    """Samples that together train every turn once, with its thoughts; the conversation itself where one does.

    Turns of one answer (calls of tools between them) share a sample where the family keeps the thoughts of all.
    `RowFault` where a turn is written askew even as the last one.
    """
    messages = conversation.messages
    wanted = [is_trained(message, loss_mask) for message in messages]
    hidden = set(script.history(conversation).places)
    if not hidden.intersection(_answers(conversation, wanted)):
        return [conversation]
    ends = _ends(conversation, script, wanted, hidden)
    return [_sample(conversation, wanted, end, start, hidden) for start, end in zip([0, *ends], ends, strict=False)]


def _ends(conversation: Conversation, script: Script, wanted: list[bool], hidden: set[int]) -> list[int]:
    """How many messages each sample holds, rising. The last holds all, if its last answer is whole there."""
    ends: list[int] = []
    for place in reversed(_answers(conversation, wanted)):
        if not ends and place not in hidden:
            ends.append(len(conversation.messages))
        elif not ends or place in hidden:
            end, hidden = _end(conversation, script, place)
            ends.append(end)
    ends.reverse()
    # Words of others that are to be trained may follow the last answer.
    return [*ends, len(conversation.messages)] if any(wanted[ends[-1] :]) else ends


def _answers(conversation: Conversation, wanted: list[bool]) -> list[int]:
    return [
        place for place, message in enumerate(conversation.messages) if message.role == "assistant" and wanted[place]
    ]


def _end(conversation: Conversation, script: Script, place: int) -> tuple[int, set[int]]:
    """How many messages a sample for this answer holds, and which of its answers lack thoughts there.

    Results of its calls come along where they may: some families close a call otherwise than a last word.
    """
    end = place + 1
    while end < len(conversation.messages) and conversation.messages[end].role == "tool":
        end += 1
    for count in dict.fromkeys((end, place + 1)):
        hidden = set(script.history(_first(conversation, count)).places)
        if place not in hidden:
            return count, hidden
    raise RowFault(
        f"messages[{place}] has thoughts (reasoning_content), which the renderer `{script.name}` does not write, even "
        "of the last turn; take them out, or name another under [renderer]"
    )


def _sample(conversation: Conversation, wanted: list[bool], end: int, start: int, hidden: set[int]) -> Conversation:
    """The first `end` messages, of which those from `start` on are trained as wanted."""
    part = _first(conversation, end)
    messages = (
        replace(message, trained=wanted[place] and place >= start) for place, message in enumerate(part.messages)
    )
    return replace(part, messages=tuple(messages))


def _first(conversation: Conversation, count: int) -> Conversation:
    return replace(conversation, messages=conversation.messages[:count])
