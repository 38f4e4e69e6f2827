"""Door to sessions in files."""

from graphkit_prebuilt.sessions.manager import FileSessionManager

__all__ = ["FileSessionManager"]
