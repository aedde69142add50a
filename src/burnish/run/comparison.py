"""Whether two runs came to the same, as the trainer's floor tells it to whoever asked."""

from burnish.spec.train import Frozen


class Comparison(Frozen):
    steps: int
    weights: int
    """Tensors that were compared."""
    moments: int
    difference: str = ""
    """The first one; empty where every bit is the same."""
