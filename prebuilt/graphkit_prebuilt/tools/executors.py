"""Whether the calls of one message run side by side or one after the other."""

from __future__ import annotations

from typing import ClassVar


class ToolExecutor:
    """How an agent runs the tools that one message of the model calls; results are in the order of the calls."""

    in_order: ClassVar[bool]


class ConcurrentToolExecutor(ToolExecutor):
    """Side by side. Those that do not ask run to their end, whatever the others do."""

    in_order = False


class SequentialToolExecutor(ToolExecutor):
    """One after the other, in the order of the calls. None is started after one that has asked or failed until that
    is done."""

    in_order = True
