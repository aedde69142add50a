"""How many tokens an image takes in Qwen's models: one for each square of merged patches, once it is resized.

The rule is that of the image processor, which makes the pixels: both sides rounded to whole squares, then both scaled
alike until the area is within bounds. Knows sizes, not images.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from burnish.data.conversations import Image, RowFault
from burnish.errors import ModelError

LONGEST = 200
"""Times that an image's long side may be its short one."""


@dataclass(frozen=True)
class ImageGrid:
    patch: int
    """Pixels along a patch's side."""
    merge: int
    """Patches along the side of a square that becomes one token."""
    smallest: int
    """Pixels in a resized image, at least; and at most."""
    largest: int

    def tokens(self, image: Image) -> int:
        """`RowFault` where an image is too narrow to be resized."""
        width, height, side = image.width, image.height, self.patch * self.merge
        if max(width, height) > LONGEST * min(width, height):
            raise RowFault(f"an image of {width}x{height} pixels is more than {LONGEST} times as long as it is wide")
        # Python rounds halves to the even number, and so does the image processor.
        rows, columns = round(height / side), round(width / side)
        area = rows * columns * side * side
        if area > self.largest:
            shrink = math.sqrt(height * width / self.largest)
            rows = max(1, math.floor(height / shrink / side))
            columns = max(1, math.floor(width / shrink / side))
        elif area < self.smallest:
            grow = math.sqrt(self.smallest / (height * width))
            rows, columns = math.ceil(height * grow / side), math.ceil(width * grow / side)
        return rows * columns


QWEN3_VL = ImageGrid(patch=16, merge=2, smallest=256 * 256, largest=4096 * 4096)
"""As published with it."""


def read_image_grid(folder: Path) -> ImageGrid:
    """What a model folder's `preprocessor_config.json` says; Qwen3-VL's where there is none.

    What such a file leaves out has the image processor's own defaults, which are Qwen2-VL's.
    """
    path = folder / "preprocessor_config.json"
    if not path.is_file():
        return QWEN3_VL
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        size: dict[str, Any] = config.get("size") or {}
        grid = ImageGrid(
            patch=int(config.get("patch_size", 14)),
            merge=int(config.get("merge_size", 2)),
            smallest=int(config.get("min_pixels") or size.get("shortest_edge") or 56 * 56),
            largest=int(config.get("max_pixels") or size.get("longest_edge") or 28 * 28 * 1280),
        )
    except (ValueError, TypeError, AttributeError) as error:
        raise ModelError(f"{path} does not say how images are resized ({error}).") from error
    if min(grid.patch, grid.merge, grid.smallest, grid.largest) < 1:
        raise ModelError(f"{path} holds a size below 1.")
    return grid
