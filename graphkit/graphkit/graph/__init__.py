"""Building graphs."""

from graphkit.constants import END, START
from graphkit.graph.message import MessagesState, add_messages
from graphkit.graph.state import StateGraph

__all__ = ["END", "START", "MessagesState", "StateGraph", "add_messages"]
