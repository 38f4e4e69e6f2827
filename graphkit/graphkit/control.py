"""`RunControl`: how anybody outside of a run asks it to stop in good order."""

from __future__ import annotations


class RunControl:
    """Given to a run as `control=`; `request_drain` asks that run to stop between two supersteps.

    The superstep in flight runs to its end and is committed, the thread is free, and the run can be gone on with:
    `invoke(None, config)`. Graphs that run inside a node stop in the same way, each at its own next superstep,
    and go on where they were. `request_drain` is one store: it may be called from any thread and from a signal
    handler. A control that was used stays so: give every run one of its own.
    """

    __slots__ = ("_reason", "shared")

    def __init__(self) -> None:
        self._reason: str | None = None
        self.shared = True

    @classmethod
    def unshared(cls) -> RunControl:
        """The control of a run that was given none: nobody can use it until a node takes it."""
        control = cls()
        control.shared = False
        return control

    def request_drain(self, reason: str = "shutdown") -> None:
        """Ask the run to stop between two supersteps; `reason` is that of the `GraphDrained` it stops with."""
        self._reason = reason

    @property
    def drain_requested(self) -> bool:
        """Whether the run was asked to stop."""
        return self._reason is not None

    @property
    def drain_reason(self) -> str | None:
        """Why, as it was given; None before it was asked."""
        return self._reason
