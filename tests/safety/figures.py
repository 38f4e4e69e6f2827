"""How large a safety test is, what chance it takes, and the figures that it hands back.

The same scenarios run in the test suite in a short form and by `make chaos` in a long one, which ends with a
table of all figures. Only what was counted goes into a figure.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

SCALE = float(os.environ.get("GRAPHKIT_CHAOS") or 0)
"""0 in the test suite; 1 takes the long forms, a fraction that part of them."""
SEED = int(os.environ.get("GRAPHKIT_SEED") or 20)
"""What all chance is derived from; `make chaos` takes a new one each time unless it is given."""
PROPERTY = "safety"

Record = Callable[[str, object], None]
"""The fixture `record_property`."""


def size(short: int, long: int) -> int:
    """How many episodes: `short` in the test suite, `long` by `make chaos`."""
    return max(short, round(long * SCALE))


def chance(*place: object) -> random.Random:
    """Chance of its own for each test: running one alone repeats what it did among the others."""
    return random.Random(f"{SEED} {place}")


def report(record: Record, row: str, text: str) -> None:
    """Hand back a figure. `row` is the number in the table of targets and what was done there."""
    record(PROPERTY, (row, text))
    print(f"{row}: {text} (GRAPHKIT_SEED={SEED})")
