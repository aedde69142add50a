from hypothesis import given
from hypothesis import strategies as st

from burnish.control.queue import Queue, Waiting
from burnish.executors.base import Slot

CPU = Slot("cpu", "CPU, 2 cores", 1 << 30, 0)
GPUS = tuple(Slot("cuda", "NVIDIA H200", 1 << 37, index) for index in range(4))


def test_the_oldest_goes_first_and_the_others_are_told_why_they_wait() -> None:
    queue = Queue((CPU,), {}, (Waiting("a", 1), Waiting("b", 1), Waiting("c", 1)))
    assert queue.slots_for("a") == [0]
    assert queue.slots_for("b") is None
    assert queue.waits_for("c") == "Waits for the one CPU slot; 2 runs ahead."


def test_a_held_slot_is_named_with_its_holder() -> None:
    queue = Queue((CPU,), {0: "job_x"}, (Waiting("a", 1), Waiting("b", 1)))
    assert queue.waits_for("a") == "Waits for the one CPU slot, held by job_x."
    assert queue.waits_for("b") == "Waits for the one CPU slot, held by job_x; 1 run ahead."


def test_a_run_that_needs_more_slots_is_not_overtaken() -> None:
    queue = Queue(GPUS, {0: "job_x"}, (Waiting("big", 4), Waiting("small", 1)))
    assert queue.slots_for("big") is None
    assert queue.slots_for("small") is None
    assert queue.waits_for("big") == "Waits for 4 GPU slots, held by job_x."


def test_a_run_that_can_never_start_holds_up_nobody() -> None:
    queue = Queue((CPU,), {}, (Waiting("big", 2), Waiting("small", 1)))
    assert queue.slots_for("small") == [0]
    assert queue.waits_for("big") == "Waits for 2 slots; this machine now offers one CPU slot."


@given(
    held=st.dictionaries(st.integers(0, 3), st.sampled_from(["x", "y"])),
    ranks=st.lists(st.integers(1, 6), min_size=1, max_size=6),
)
def test_nobody_gets_a_held_slot_and_whoever_can_start_next_is_first(held: dict[int, str], ranks: list[int]) -> None:
    queue = Queue(GPUS, held, tuple(Waiting(f"run{place}", count) for place, count in enumerate(ranks)))
    for place, count in enumerate(ranks):
        slots = queue.slots_for(f"run{place}")
        if slots is None:
            assert queue.waits_for(f"run{place}").startswith("Waits for")
            continue
        assert len(set(slots)) == count and not set(slots) & set(held)
        assert all(earlier > len(GPUS) for earlier in ranks[:place])
