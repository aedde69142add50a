"""What this server can run on, and who holds it now."""

from burnish.control.house import House
from burnish.control.queue import read_queue
from burnish.wire import CapacityView, SlotView


def read_capacity(house: House) -> CapacityView:
    slots = house.executor.capacity()
    with house.database.session(writes=False) as session:
        holders = read_queue(session, slots).holders
    return CapacityView(
        executor=house.executor.name,
        slots=[
            SlotView(kind=slot.kind, name=slot.name, memory_bytes=slot.memory_bytes, run_id=holders.get(slot.index))
            for slot in slots
        ],
    )
