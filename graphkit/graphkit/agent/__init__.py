"""Door to agents."""

from graphkit_prebuilt.agent import Agent
from graphkit_prebuilt.managers.manager import ConversationManager, NullConversationManager
from graphkit_prebuilt.managers.sliding import SlidingWindowConversationManager
from graphkit_prebuilt.managers.summarizing import SummarizingConversationManager
from graphkit_prebuilt.result import AgentResult
from graphkit_prebuilt.retry import ModelRetryStrategy
from graphkit_prebuilt.state import AgentState
from graphkit_prebuilt.thread import AgentThread

__all__ = [
    "Agent",
    "AgentResult",
    "AgentState",
    "AgentThread",
    "ConversationManager",
    "ModelRetryStrategy",
    "NullConversationManager",
    "SlidingWindowConversationManager",
    "SummarizingConversationManager",
]
