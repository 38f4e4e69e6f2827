"""Door to `graphkit_prebuilt.sessions`."""

from graphkit_prebuilt.sessions.manager import (
    FileSessionManager,
    FileStorage,
    SessionManager,
)

__all__ = ["FileSessionManager", "FileStorage", "SessionManager"]
