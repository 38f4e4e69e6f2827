"""SIGTERM during a run that writes only at its end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def writing_on_sigterm() -> Iterator[None]:
    """Let SIGTERM end the process the way `sys.exit` does, so that the run inside can write first.

    Only in the main thread, and only where nobody has said otherwise: a handler of the program's own stays.
    """
    here = threading.current_thread() is threading.main_thread()
    if not here or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _exit(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
