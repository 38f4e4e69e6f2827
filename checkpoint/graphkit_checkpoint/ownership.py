"""Who owns a thread: a token per run, and whether the run behind a token is still alive.

A token is `host/pid/start/nonce`. On the host that wrote it the operating system knows whether the
process lives (the start time tells a reused pid apart), and in the process that wrote it a set knows
whether the run has ended; so a dead owner is recognised at once. Elsewhere only the lease tells.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from typing import NamedTuple

_running: set[str] = set()
_counter = 0
_lock = threading.Lock()


class Holder(NamedTuple):
    """The owner of a thread as stored: its token, since when, and until when its lease runs (unix seconds)."""

    token: str
    since: float
    lease: float


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
    """Whether the run behind a token may still write."""
    host, pid, start, _ = holder.token.rsplit("/", 3)
    if host != _host():
        return time.time() < holder.lease
    if int(pid) == os.getpid() and start == _start_of(int(pid)):
        return holder.token in _running
    return _start_of(int(pid)) == start


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
