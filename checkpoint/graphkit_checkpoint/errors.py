"""What can go wrong with a thread, a checkpoint or a stored value.

`GraphkitError` is the root of every error the project raises; each error is also the
built-in kind that a caller would expect, so `except ValueError` works as well.
"""

from __future__ import annotations

from typing import Self


class GraphkitError(Exception):
    """Base of all graphkit errors."""


class StorageError(GraphkitError, RuntimeError):
    """The database could not do what was asked of it."""


class StorageBusyError(StorageError):
    """The database stayed locked longer than the saver's timeout. Retryable: nothing was written."""


class StorageUnavailableError(StorageError):
    """The database cannot be reached. Retryable: nothing was written."""


class StorageCorruptError(StorageError):
    """The database file is damaged, truncated or belongs to another program."""


class CheckpointCorruptError(StorageError):
    """A stored record does not match its checksum, or records that it needs are missing."""


class ConcurrentUpdateError(GraphkitError, RuntimeError):
    """Another run owns the thread. Nothing was written and no node ran; try again when it has ended."""


class LeaseLostError(ConcurrentUpdateError):
    """This run lost its claim to another one; what it had not committed is refused."""


class InvalidThreadIdError(GraphkitError, ValueError):
    """A thread id must be a string of 1 to 255 characters without NUL or lone surrogates."""


class UnstorableError(GraphkitError):
    """A value cannot be stored: one of the two kinds below.

    What was to be stored is a `channel`, or a `record` (kind, key) of the task `task_id`.
    """

    path: str = ""
    channel: str | None = None
    record: tuple[str, str] | None = None
    task_id: str | None = None

    def of(self, whose: str) -> Self:
        """The same error, saying whose value it is."""
        told = type(self)(f"{whose}: {self}")
        vars(told).update(vars(self))
        return told


class UnserializableStateError(UnstorableError, TypeError):
    """A value cannot be stored exactly. Says where the value is; register its type or store plain data.

    `path` leads to the value inside what was to be stored, `type_name` is its type.
    """

    type_name: str = ""


class UnknownTypeError(GraphkitError, TypeError):
    """A stored value names a type that is not registered in this process."""


class StateTooLargeError(UnstorableError, ValueError):
    """One value is larger than the saver's limit (`max_value_bytes`)."""


class EncryptionError(StorageError):
    """A row cannot be opened: it is not encrypted and the saver encrypts, or the key is missing or wrong."""
