"""Where a callback stands among those of its event."""

from __future__ import annotations

from typing import Final


class HookOrder:
    """Marks on the scale of `order=`: lower runs first, for Before and After events alike.

    They say where graphkit's own callbacks run and bound nothing: any number is valid, as are
    `float("-inf")` and `float("inf")`. Values: Strands' `HookOrder`.
    """

    SDK_FIRST: Final = -100
    DEFAULT: Final = 0
    SDK_LAST: Final = 100
