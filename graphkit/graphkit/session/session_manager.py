"""Door to sessions."""

from graphkit_prebuilt.sessions.manager import SessionManager

__all__ = ["SessionManager"]
