"""Who owns a thread: a token per run, and whether the run behind a token is still alive.

A token is `host/pid/start/nonce`. On the host that wrote it the operating system knows whether the
process lives (the start time tells a reused pid apart), and in the process that wrote it a set knows
whether the run has ended; so a dead owner is recognised at once. An owner that cannot be seen to be dead
keeps the thread as long as its lease runs: every commit renews it, and while a node takes long, `Leases`
does. So an owner that was stopped, or whose host is gone, can be replaced when its lease has run out.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

_running: set[str] = set()
_counter = 0
_lock = threading.Lock()


class Holder(NamedTuple):
    """The owner of a thread as stored: its token, since when (unix seconds), and how many seconds its lease
    had left when it was read, both by the clock of the database."""

    token: str
    since: float
    left: float


NOBODY: Final = "nobody"
"""The token of a run that did not give its thread back, once its own must not be taken for an owner's any more."""


def new_token() -> str:
    """A token for a run of this process that begins now; `forget_token` when it ends."""
    global _counter
    with _lock:
        _counter += 1
        token = f"{_process_prefix(os.getpid())}/{_counter}"
        _running.add(token)
    return token


def forget_token(token: str) -> None:
    _running.discard(token)


def is_alive(holder: Holder) -> bool:
    """Whether the run behind a token may still write: its lease runs, and it is not known to be dead."""
    if holder.left <= 0:
        return False
    parts = holder.token.rsplit("/", 3)
    if len(parts) != 4 or not parts[1].isdecimal() or parts[0] != _host():
        return True  # of another host, or damaged: the lease decides
    _, pid, start, _ = parts
    if int(pid) == os.getpid() and start == _start_of(int(pid)):
        return holder.token in _running
    return _start_of(int(pid)) == start


RENEWALS: Final = 3
"""How often a lease is renewed in its own time: two renewals may fail before it is lost."""
LINGER: Final = 1.0
"""Seconds that the renewing thread waits for another claim before it ends."""

Renew = Callable[[], None]


class Leases:
    """Renews the leases of this process's runs while they work and commit nothing.

    One thread for all of them, there only while there are claims. A renewal that fails is not an error
    here: the run learns of it at its next commit.
    """

    def __init__(self) -> None:
        self._due: dict[str, tuple[float, float, Renew]] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def hold(self, token: str, lease: float, renew: Renew) -> None:
        """The run has just claimed or committed; `renew` is called whenever a third of `lease` has passed."""
        interval = lease / RENEWALS
        is_new = token not in self._due
        self._due[token] = (time.monotonic() + interval, interval, renew)
        if self._thread is None or (is_new and interval < LINGER):
            with self._changed:
                self._changed.notify()
                if self._thread is None:
                    self._thread = threading.Thread(target=self._work, name="graphkit-leases", daemon=True)
                    self._thread.start()

    def release(self, token: str) -> None:
        """The run has given the thread back, or has ended without."""
        self._due.pop(token, None)

    def reset(self) -> None:
        """Forget claims and thread: those of the process that this one was forked from."""
        self.__init__()  # type: ignore[misc]

    def _work(self) -> None:
        while True:
            self._renew_what_is_due()
            with self._changed:
                self._changed.wait(self._pause())
                if not self._due:
                    self._thread = None
                    if not self._due:  # a claim that came in between has seen this thread and relies on it
                        return
                    self._thread = threading.current_thread()

    def _renew_what_is_due(self) -> None:
        now = time.monotonic()
        # A copy in one go: while a list of pairs is made, garbage may be collected, and other threads come in then.
        for token, (due, interval, renew) in self._due.copy().items():
            if token not in _running:
                self.release(token)
            elif due <= now:
                self._due[token] = (now + interval, interval, renew)
                with suppress(Exception):
                    renew()

    def _pause(self) -> float:
        now = time.monotonic()
        pause = min((due - now for due, _, _ in self._due.copy().values()), default=LINGER)
        return min(max(pause, 0.0), LINGER)


leases: Final = Leases()
os.register_at_fork(after_in_child=leases.reset)


@functools.lru_cache(maxsize=4)
def _process_prefix(pid: int) -> str:
    return f"{_host()}/{pid}/{_start_of(pid)}"


@functools.cache
def _host() -> str:
    """This kernel and this pid namespace: a pid means nothing outside of it."""
    import socket

    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read().strip()
        return f"{socket.gethostname()}:{boot}:{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return socket.gethostname()


def _start_of(pid: int) -> str:
    """When the process was started, as text; empty if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return "" if os.path.isdir("/proc/self") else _start_without_proc(pid)
    # A zombie has ended: it waits for its parent and will never write again.
    return "" if fields[0] in (b"Z", b"X") else fields[19].decode()


def _start_without_proc(pid: int) -> str:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        pass
    return "alive"
