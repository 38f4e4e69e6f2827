"""Door to `graphkit_prebuilt.managers`."""

from graphkit_prebuilt.managers.manager import ConversationManager, NullConversationManager
from graphkit_prebuilt.managers.sliding import SlidingWindowConversationManager
from graphkit_prebuilt.managers.summarizing import SummarizingConversationManager

__all__ = [
    "ConversationManager",
    "NullConversationManager",
    "SlidingWindowConversationManager",
    "SummarizingConversationManager",
]
