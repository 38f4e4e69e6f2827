"""One saver per file and process: opening a file takes longer than reading a conversation from it."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary, WeakValueDictionary, finalize

from graphkit_checkpoint.errors import InvalidThreadIdError

if TYPE_CHECKING:
    from sqlalchemy.engine import Engine

    from graphkit_checkpoint.sqlite import SqliteSaver

KEPT_OPEN: Final = 32
"""How many files stay open though no agent has them: the next request of a session finds them so."""
LONGEST_NAME: Final = 255 - len("-journal")
"""In bytes: SQLite puts a word behind the name for the files beside its own."""
REFUSED: Final = {code: f"%{code:02X}" for code in (*range(32), *map(ord, '<>:"|?*%'))}
"""What some file system does not take, as it is written in addresses."""

_lock = threading.Lock()
_savers: WeakValueDictionary[str, SqliteSaver] = WeakValueDictionary()
_files: WeakKeyDictionary[SqliteSaver, tuple[int, int]] = WeakKeyDictionary()
_recent: OrderedDict[str, SqliteSaver] = OrderedDict()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


def saver_of(directory: Path, session_id: str) -> SqliteSaver:
    """The saver of the session's file, which is made if it is not there; and anew if it was removed or closed.

    Raises `InvalidThreadIdError`, `OSError`, and what `SqliteSaver` raises.
    """
    path = os.path.join(os.path.realpath(directory), name_of(session_id))
    with _lock:
        saver = _savers.get(path)
        if saver is None or saver.closed or _files[saver] != _identity(path):
            saver = _opened(path)
        _recent[path] = saver
        _recent.move_to_end(path)
        if len(_recent) > KEPT_OPEN:
            _recent.popitem(last=False)
        return saver


def name_of(session_id: str) -> str:
    """The name of a session's file. Raises `InvalidThreadIdError` if it would be too long."""
    name = f"session_{session_id.translate(REFUSED)}.sqlite"
    size = len(os.fsencode(name))
    if size > LONGEST_NAME:
        raise InvalidThreadIdError(
            f"session_id {session_id!r:.80} makes a file name of {size} bytes, and there may be {LONGEST_NAME}; use "
            f"a shorter one, or SessionManager(saver, session_id)"
        )
    return name


def _opened(path: str) -> SqliteSaver:
    from graphkit_checkpoint.sqlite import SqliteSaver

    if not os.path.isdir(directory := os.path.dirname(path)):
        os.makedirs(directory, exist_ok=True)
    saver = _savers[path] = SqliteSaver(path)
    _files[saver] = _identity(path) or (0, 0)
    finalize(saver, _let_go, saver.engine)
    return saver


def _let_go(engine: Engine) -> None:
    """Close its connection. Unlike `dispose`, it makes no pool for others."""
    engine.pool.dispose()


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
