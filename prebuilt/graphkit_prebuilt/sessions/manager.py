"""`SessionManager`: a saver and the name of a session. There is nothing else to a session."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from graphkit_checkpoint.admission import check_thread_id
from graphkit_checkpoint.errors import InvalidThreadIdError
from graphkit_prebuilt.sessions.files import saver_of

if TYPE_CHECKING:
    from graphkit_checkpoint.base import BaseCheckpointSaver

DEFAULT_AGENT_ID = "default"
"""The id of an agent that was given none; its thread is named like the session."""
SNAPSHOT = "snapshot"
"""The one kind of storage a session has."""


class HasAgentId(Protocol):
    """What a session must know of an agent."""

    @property
    def agent_id(self) -> str: ...


class FileStorage:
    """A folder with an SQLite file for each session. It is made with the first session.

    Raises `TypeError` for what is no path.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)

    def saver(self, session_id: str) -> BaseCheckpointSaver:
        """The saver of a session, the same for everybody in this process. Raises `InvalidThreadIdError` for an id
        that can name no file, `OSError` if the folder cannot be made, and what `SqliteSaver` raises."""
        return saver_of(self.directory, session_id)


class SessionManager:
    """Where an agent keeps its conversation: `saver`, and `session_id`, under which others find it again.

    Either `SessionManager(saver, session_id)`, or `SessionManager(session_id=..., storage={"snapshot":
    FileStorage(directory)})`. A fresh agent with the same session goes on: with the messages, the state, the open
    questions and the answers given so far. Agents of several ids may share a session; each has a thread of its own.

    Raises `InvalidThreadIdError` for an id that is no text of 1 to 255 characters without NUL, `/` and `\\`;
    `TypeError` unless there is one saver or one storage; `ValueError` for a storage of another kind.
    """

    def __init__(
        self,
        saver: BaseCheckpointSaver | None = None,
        session_id: str | None = None,
        *,
        storage: Mapping[str, FileStorage] | None = None,
    ) -> None:
        self.session_id = check_session_id(session_id)
        if (saver is None) == (storage is None):
            raise TypeError(
                "a SessionManager needs a saver or a storage, and not both: SessionManager(saver, session_id) or "
                "SessionManager(session_id=..., storage={'snapshot': FileStorage(directory)})"
            )
        self.saver = saver if saver is not None else _only(storage or {}).saver(self.session_id)

    def thread_of(self, agent: HasAgentId) -> str:
        """The thread of an agent: the session's id, with the agent's behind it unless that is "default".

        Raises `InvalidThreadIdError` if both together are too long.
        """
        if agent.agent_id == DEFAULT_AGENT_ID:
            return self.session_id
        return check_thread_id(f"{self.session_id}/{agent.agent_id}")


class FileSessionManager(SessionManager):
    """A session in an SQLite file, `<storage_dir>/session_<session_id>.sqlite`.

    `storage_dir` is by default a folder for temporary files. Any number of processes of one machine may have the
    session; whoever runs an agent while another one does gets `ConcurrentUpdateError`. Raises what `SessionManager`
    and `FileStorage.saver` raise.
    """

    def __init__(self, session_id: str, storage_dir: str | os.PathLike[str] | None = None) -> None:
        super().__init__(
            session_id=session_id, storage={SNAPSHOT: FileStorage(storage_dir or _default_dir())}
        )


def _default_dir() -> Path:
    import tempfile

    return Path(tempfile.gettempdir(), "graphkit", "sessions")


def check_session_id(session_id: object) -> str:
    """The id of a session as text. Raises `InvalidThreadIdError`."""
    text = check_thread_id(session_id)
    if "/" in text or "\\" in text:
        raise InvalidThreadIdError(
            f"session_id {text!r:.80} contains a path separator; it names a thread and a file, so use text "
            f"without '/' and '\\', such as 'user-42'"
        )
    return text


def _only(storage: Mapping[str, FileStorage]) -> FileStorage:
    if set(storage) != {SNAPSHOT} or not isinstance(storage[SNAPSHOT], FileStorage):
        raise ValueError(
            f"storage must be {{'snapshot': FileStorage(directory)}}, not {dict(storage)!r:.200}; for any other "
            f"place pass a saver"
        )
    return storage[SNAPSHOT]
