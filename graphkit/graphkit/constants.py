"""Names with a meaning of their own inside a graph."""

from __future__ import annotations

from typing import Final

__all__ = ["END", "INTERRUPT", "START", "TAG_HIDDEN", "TAG_NOSTREAM"]

START: Final = "__start__"
"""The entry: edges from it lead to the nodes that run first."""

END: Final = "__end__"
"""The exit: an edge to it ends that path."""

INTERRUPT: Final = "__interrupt__"
"""The key under which open questions appear in results and streams."""

TAG_HIDDEN: Final = "graphkit:hidden"
"""A node tag: hide the node from drawings."""

TAG_NOSTREAM: Final = "nostream"
"""A model tag: do not stream its tokens."""

PUSH: Final = "__pregel_push"
"""What a task made by a `Send` names as its trigger (source: LangGraph)."""

OVERWRITE: Final = "__overwrite__"
"""`{OVERWRITE: value}`: an `Overwrite`, as JSON says it."""

COPY: Final = "__copy__"
"""`update_state(as_node=COPY)`: copy the checkpoint as it is."""

INPUT: Final = "__input__"
"""`update_state(as_node=INPUT)`: take the values as a new input."""

PARENT: Final = "__parent__"
"""`Command(graph=PARENT)`: address the graph around this one."""

GRAPH: Final = "__graph__"
"""The channel in which a thread keeps the shape of the graph that left it."""

PREVIOUS: Final = "__previous__"
"""The channel in which an entrypoint keeps what its next run is given as `previous`."""

RETURN: Final = "__return__"
"""The key under which the result of a task is written: it is no channel."""

RESERVED: Final = frozenset({START, END, INTERRUPT, COPY, INPUT, PARENT, GRAPH, PREVIOUS, RETURN})
"""Names that no node and no channel may have."""

LONGEST_NAME: Final = 255
"""Characters of the longest name that a node or a state key may have."""
