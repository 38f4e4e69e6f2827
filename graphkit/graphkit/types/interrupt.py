"""Door to the answers to questions."""

from graphkit_prebuilt.content import InterruptResponse, InterruptResponseContent

__all__ = [
    "InterruptResponse",
    "InterruptResponseContent",
]
