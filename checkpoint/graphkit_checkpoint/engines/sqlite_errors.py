"""Our errors for those of SQLite, by its result codes. Loads nothing but the sqlite3 module."""

from __future__ import annotations

import re
import sqlite3
from typing import Final

from graphkit_checkpoint.errors import (
    StorageBusyError,
    StorageCorruptError,
    StorageError,
    StorageUnavailableError,
)

SQLITE_ERRORS: Final = (sqlite3.Error, UnicodeDecodeError)
"""What sqlite3 raises: also raw, when it cannot decode SQLite's own message about damage."""

_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_CORRUPT: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})
_UNAVAILABLE: Final = frozenset(
    {
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
    }
)
_SIGNS: Final = re.compile("no such (table|column)|Could not decode")
"""Of damage that has no code of its own: what a schema lacks, and text that is no UTF-8."""


def failure(error: BaseException, name: str) -> StorageError:
    """The error to raise instead; `name` says which database it was, such as "SQLite file 'a.db'"."""
    cause = getattr(error, "orig", None) or error
    code = getattr(cause, "sqlite_errorcode", None)
    primary = None if code is None else code & 0xFF  # the rest is SQLite's finer distinction
    if primary in _BUSY:
        return StorageBusyError(
            f"{name} stayed locked by another writer ({cause}); try the same call again, and if it stays so, look "
            f"for a process that was stopped while it wrote"
        )
    if primary in _CORRUPT or isinstance(cause, UnicodeDecodeError) or _SIGNS.search(str(cause)):
        return StorageCorruptError(f"{name} is damaged ({cause}); restore it from a backup")
    if primary in _UNAVAILABLE or isinstance(cause, sqlite3.ProgrammingError):
        return StorageUnavailableError(f"{name} cannot be used ({cause}); nothing was written")
    return StorageError(f"{name}: {cause}")
