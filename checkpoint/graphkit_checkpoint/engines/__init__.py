"""Databases as savers and stores find them: engines from what users give, and the drivers' errors as ours."""

from __future__ import annotations

import math


def checked_timeout(timeout: object) -> float:
    """Seconds to wait for a lock; 0 means not to wait. Raises `ValueError`."""
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 <= timeout < math.inf:
        raise ValueError(f"timeout must be a number of seconds, not {timeout!r}")
    return timeout
