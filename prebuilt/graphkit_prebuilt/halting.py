"""Halting: a callback or a tool stops the loop, and the caller gets a result that says why.

A halt is kept as a question is: the task that halted asks something that only `resume` answers. So it is
durable, advances nothing, lets the calls beside it run to their end, comes out of whatever is around the agent, and
the task runs again from its top when it is resumed. It halts again if what made it halt is still so: whoever halts
looks at what has changed since, in the state of its plugin for instance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Final, NoReturn

from graphkit.engine.answers import Directed
from graphkit.errors import GraphBubbleUp, GraphInterrupt, HaltedTwiceError, UnserializableStateError
from graphkit.frame import current
from graphkit.types import Interrupt
from graphkit_checkpoint.serde import fingerprint, register_type
from graphkit_prebuilt.loop.invocation import here

__all__ = ["Halt", "HaltSignal", "Halted", "halt", "halts_in", "halts_told", "questions_in"]

_NUMBER: Final = "halts"


class HaltSignal(GraphBubbleUp):
    """Raised or returned by a callback of any hook, a middleware, a tool or a function that is a node, it stops the
    agent or orchestrator at this point, with everything around it.

    The request ends with an `AgentResult` or `MultiAgentResult` of this `stop_reason`, a text of any kind, and with
    `data`, anything that can be stored. `resumable` says whether `resume(plugin, data)` may go on with the turn; a new
    prompt leaves it in either case. `plugin` is the name of the plugin that halts, by default the one whose method or
    tool this comes from; None for what belongs to no plugin. The other callbacks of the event, the calls of tools and
    the nodes beside this one run to their end; they may halt and ask too.

    Derived from `BaseException`, so that `except Exception` lets it pass. Raises `TypeError` for a stop reason that is
    no text, `ValueError` for an empty one.
    """

    def __init__(
        self, stop_reason: str, data: Any = None, resumable: bool = True, *, plugin: str | None = None
    ) -> None:
        if not isinstance(stop_reason, str):
            raise TypeError(f"HaltSignal needs a stop_reason that is text, not {stop_reason!r:.100}")
        if not stop_reason:
            raise ValueError("HaltSignal needs a stop_reason that is not empty")
        if plugin is not None and (not isinstance(plugin, str) or not plugin):
            raise TypeError(f"HaltSignal needs the name of a plugin, not {plugin!r:.100}")
        super().__init__(stop_reason)
        self.stop_reason = stop_reason
        self.data = data
        self.resumable = bool(resumable)
        self.plugin = plugin


@dataclass(frozen=True, slots=True)
class Halt:
    """Why an agent or orchestrator has stopped. `id` is its own among the halts of a thread; `at_model` says that the
    model was about to be called."""

    answered_by: ClassVar[type] = Directed
    stop_reason: str
    data: Any = None
    resumable: bool = True
    plugin: str | None = None
    at_model: bool = False
    id: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Its fields; the data as it is."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


register_type(Halt, name="graphkit:Halt")


class Halted:
    """What results tell of `halts`, the first of them: the others stand beside it."""

    __slots__ = ()
    halts: Sequence[Halt]

    @property
    def data(self) -> Any:
        """What the halt came with; None without one."""
        return self.halts[0].data if self.halts else None

    @property
    def resumable(self) -> bool:
        """Whether `resume(result.plugin, ...)` may go on after the halt; False without one."""
        return bool(self.halts) and self.halts[0].resumable

    @property
    def plugin(self) -> str | None:
        """The name of the plugin that has halted, if one has."""
        return self.halts[0].plugin if self.halts else None


def halt(signal: HaltSignal, plugin: str | None = None) -> NoReturn:
    """Halt the running task: raises what carries the halt out of it. `plugin` is whose doing it is, if the signal
    does not say so.

    Raises `HaltedTwiceError` where the agent comes to rest because it is halted, `UnserializableStateError` for data
    that cannot be stored, `RuntimeError` outside of a request.
    """
    frame, request = current.get(), here.get()
    plugin = signal.plugin or plugin
    who = f"{'something' if plugin is None else f'plugin {plugin!r}'} halts ({signal.stop_reason!r})"
    if frame is None:
        raise RuntimeError(f"{who} where no request of an agent runs that could be halted") from signal
    if request is not None and request.halts:
        before = request.halts[0]
        raise HaltedTwiceError(
            f"{who} while the agent comes to rest because it is halted already "
            f"({before.stop_reason!r}, plugin {before.plugin!r}); that halt stays, and can be resumed"
        ) from signal
    try:
        fingerprint(signal.data)
    except UnserializableStateError as error:
        raise UnserializableStateError(f"{who} with data that cannot be stored: {error}") from error
    number = frame.kept.get(_NUMBER, 0)
    frame.keep(_NUMBER, number + 1)
    halt = Halt(
        signal.stop_reason,
        signal.data,
        signal.resumable,
        plugin,
        frame.attempt.node.name == "model" and not _has_answered(frame.kept),
    )
    frame.ask(halt, f"{plugin or ''}:{number}", None, within="halt")
    raise AssertionError("no halt of this number can have been answered")


def _has_answered(kept: Mapping[str, Any]) -> bool:
    """Whether the node `model` keeps what the model has said in the try that runs."""
    tried = f"said:{kept.get('tries', 0)}:"
    return bool(kept.get("answer")) or any(key.startswith(tried) for key in kept)


def carry_out(error: BaseException) -> None:
    """Halt for a signal that leaves a node, on its own or in an exception group; return for anything else."""
    if isinstance(error, HaltSignal):
        halt(error)
    if not isinstance(error, BaseExceptionGroup) or error.subgroup(HaltSignal) is None:
        return
    carried: list[BaseException] = []
    for one in _leaves(error):
        if isinstance(one, HaltSignal):
            try:
                halt(one)
            except GraphInterrupt as halted:
                one = halted
        carried.append(one)
    raise BaseExceptionGroup("several things came at once, and one of them halted", carried) from error


def _leaves(group: BaseExceptionGroup[Any]) -> Iterator[BaseException]:
    for one in group.exceptions:
        if isinstance(one, BaseExceptionGroup):
            yield from _leaves(one)
        else:
            yield one


def halts_told(data: Mapping[str, Any]) -> tuple[Halt, ...]:
    """Those that a result has put among its plain data."""
    return tuple(Halt(**each) for each in data.get("halts", ()))


def halts_in(open: Iterable[Interrupt]) -> list[Halt]:
    """The halts among what is open, in its order."""
    return [replace(each.value, id=each.id) for each in open if type(each.value) is Halt]


def questions_in(open: Sequence[Interrupt]) -> list[Interrupt]:
    """What is open without the halts: what a person can answer."""
    return [each for each in open if type(each.value) is not Halt]
