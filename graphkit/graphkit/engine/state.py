"""The state of a run between supersteps: channels, the view that nodes get, and what runs next.

Invariant 1 (order): writes are applied in task-path order, whatever order the tasks finished in.
Invariant 2 (cost): a superstep touches the channels it wrote and the transient ones that hold a value,
never all of them; the view is kept up to date instead of being built.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from graphkit.channels import MISSING, BaseChannel, LastValue, NamedBarrierValue
from graphkit.constants import END
from graphkit.engine.attempt import Target, Write
from graphkit.engine.program import Join, NodeSpec, Program
from graphkit.errors import InvalidUpdateError
from graphkit.extensions import Extension, joined
from graphkit.types import Overwrite, Send

Entry = tuple[str, NodeSpec | None, Sequence[Write], Sequence[Target]]
"""One finished task as it is applied: its name, node, writes and targets. The node is None for a command from outside:
no edges follow. (A tuple, since every task becomes one.)"""


Plan = tuple[list[str], list[Send]]
"""What runs next: names (sorted) once each with the state, then every `Send` with its own input."""

_NONE: Final[frozenset[str]] = frozenset()
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Changes:
    """What a superstep did to the stored channels. Most clear and extend none: what is `cleared` and `extended` is
    made with the first."""

    __slots__ = ("changed", "cleared", "extended")

    def __init__(self) -> None:
        self.changed: dict[str, Any] = {}
        self.cleared: set[str] = _NONE  # type: ignore[assignment]  # see `clear`
        self.extended: dict[str, Extension] = _NOTHING  # type: ignore[assignment]  # see `extend`

    @classmethod
    def of(
        cls,
        changed: Mapping[str, Any],
        cleared: Iterable[str] = (),
        extended: Mapping[str, Extension] = _NOTHING,
    ) -> Changes:
        changes = cls()
        changes.changed.update(changed)
        changes.cleared = set(cleared)
        changes.extended = dict(extended)
        return changes

    def __bool__(self) -> bool:
        return bool(self.changed or self.cleared)

    def clear(self, key: str) -> None:
        """The channel has lost its value."""
        if not self.cleared:
            self.cleared = set()
        self.cleared.add(key)

    def extend(self, key: str, extension: Extension) -> None:
        """The channel's new value is the old one and more."""
        if not self.extended:
            self.extended = {}
        self.extended[key] = extension

    def add(self, later: Changes) -> Changes:
        """Make these the changes of both, one after the other."""
        if not (later.changed or later.cleared):
            return self
        extended = dict(self.extended)
        for key in later.cleared:
            self.changed.pop(key, None)
            extended.pop(key, None)
        for key in later.changed:
            if key not in later.extended or (key in self.changed and key not in extended):
                extended.pop(key, None)
            elif key in extended:
                extended[key] = joined(extended[key], later.extended[key])
            else:
                extended[key] = later.extended[key]
        self.changed.update(later.changed)
        self.cleared = self.cleared.difference(later.changed) | later.cleared
        self.extended = extended
        return self


class Channels(dict[str, BaseChannel[Any]]):
    """The channels of one run by key. One that has no value is made when it is first wanted: most runs touch few."""

    __slots__ = ("kinds",)

    def __init__(self, kinds: Mapping[str, BaseChannel[Any]]) -> None:
        self.kinds = kinds

    def __missing__(self, key: str) -> BaseChannel[Any]:
        return self.setdefault(key, self.kinds[key].from_checkpoint(MISSING))


class State:
    """Channels and control of one run. Not shared: every run has its own."""

    __slots__ = ("branch", "channels", "deferred", "joins", "program", "task", "transient", "view")

    def __init__(
        self, program: Program, values: Mapping[str, Any], control: Mapping[str, Any] | None
    ) -> None:
        self.program = program
        self.channels = Channels(program.channels)
        self.view: dict[str, Any] = {}
        self.transient: set[str] = set()
        for key, kind in program.channels.items():
            value = values.get(key, MISSING)
            if value is MISSING and key not in program.filled:
                continue
            channel = self.channels[key] = kind.from_checkpoint(value)
            if type(channel) is LastValue:
                self.view[key] = value
            elif channel.is_available():
                if channel.readable:
                    self.view[key] = channel.get()
                if channel.transient:
                    self.transient.add(key)
        control = control or {}
        self.task: str = control.get(
            "task", ""
        )  # that a graph which keeps its state from task to task runs in
        self.branch: str = control.get("branch", "")  # of the thread: another one after each fork of it
        self.deferred: list[str] = list(control.get("deferred", ()))
        self.joins: dict[str, NamedBarrierValue] = {}
        for key, seen in control.get("joins", {}).items():
            join = next((join for join in program.joins if join_key(join) == key), None)
            if join is not None:
                self._barrier(join).update(seen)

    def replace(self, values: Mapping[str, Any]) -> None:
        """Other values for all channels; those that are not given lose theirs."""
        for key, channel in self.program.channels.items():
            self.channels[key] = channel.from_checkpoint(values.get(key, MISSING))
            self._look(key, self.channels[key])

    def _look(self, key: str, channel: BaseChannel[Any]) -> None:
        """Bring view and transient set up to date with one channel."""
        available = channel.is_available()
        if channel.readable:
            if available:
                self.view[key] = channel.get()
            else:
                self.view.pop(key, None)
        if not channel.transient:
            return
        if available:
            self.transient.add(key)
        else:
            self.transient.discard(key)

    def apply(self, entries: Sequence[Entry], advance: bool = True) -> Changes:
        """Apply writes; with `advance` they end a superstep, and transient values that were not written go.

        Raises `InvalidUpdateError` naming channel and nodes.
        """
        changes = Changes()
        grouped = group(writes_of(entries))
        for key in self.transient.difference(grouped) if advance and self.transient else ():
            if self.channels[key].update(()):
                self._note(key, self.channels[key], changes)
        for key, values in grouped.items():
            channel = self.channels[key]
            if type(channel) is LastValue and len(values) == 1 and type(values[0]) is not Overwrite:
                channel.value = self.view[key] = changes.changed[key] = values[0]
            elif self._update(key, channel, values, entries):
                self._note(key, channel, changes)
        return changes

    def _update(
        self, key: str, channel: BaseChannel[Any], values: list[Any], entries: Sequence[Entry]
    ) -> bool:
        try:
            return channel.update(values)
        except Exception as error:
            writers = [name for name, _, writes, _ in entries if any(channel == key for channel, _ in writes)]
            error.add_note(f"while applying the writes of {', '.join(map(repr, writers))} to channel {key!r}")
            if isinstance(error, InvalidUpdateError):
                raise InvalidUpdateError(f"{error} (written by {', '.join(map(repr, writers))})") from error
            raise

    def _note(self, key: str, channel: BaseChannel[Any], changes: Changes) -> None:
        self._look(key, channel)
        if not channel.stored:
            return
        stored = channel.checkpoint()
        if stored is MISSING:
            changes.clear(key)
            return
        changes.changed[key] = stored
        extension = channel.extension
        if extension is not None:
            changes.extend(key, extension)

    def follow(self, entries: Sequence[Entry]) -> Plan:
        """What runs after these tasks: their edges, branches and commands; deferred nodes when all is done."""
        names: set[str] = set()
        sends: list[Send] = []
        if self.joins:
            self._start_joins_anew({name for name, _, _, _ in entries})
        for name, spec, _, targets in entries:
            if spec is not None:
                names.update(spec.successors)
                for index in spec.joins:
                    self._arrive(self.program.joins[index], name, names)
            for target in targets:
                if type(target) is Send:
                    sends.append(target)
                else:
                    names.add(target)  # type: ignore[arg-type]
        names.discard(END)
        if self.program.deferred:
            names = self._without_deferred(names, sends)
        return sorted(names), sends

    def _arrive(self, join: Join, source: str, names: set[str]) -> None:
        barrier = self._barrier(join)
        barrier.update((source,))
        if barrier.is_available():
            names.add(join.target)

    def joins_of(self, name: str) -> tuple[str, ...]:
        """The joins that are complete for a node that runs next."""
        if not self.joins:
            return ()
        return tuple(
            f"join:{key}"
            for key, barrier in self.joins.items()
            if key.endswith(f":{name}") and barrier.is_available()
        )

    def _start_joins_anew(self, ran: Container[str]) -> None:
        """A join is complete until its target has run, so that an edit before that does not open it again."""
        for join in self.program.joins:
            barrier = self.joins.get(join_key(join))
            if barrier is not None and join.target in ran and barrier.consume():
                del self.joins[join_key(join)]

    def _barrier(self, join: Join) -> NamedBarrierValue:
        return self.joins.setdefault(
            join_key(join), NamedBarrierValue(str, set(join.sources), join_key(join))
        )

    def _without_deferred(self, names: set[str], sends: list[Send]) -> set[str]:
        late = self.program.deferred & names
        self.deferred.extend(sorted(late.difference(self.deferred)))
        names -= late
        if not names and not sends and self.deferred:
            names, self.deferred = set(self.deferred), []
        return names

    def finish(self, changes: Changes) -> None:
        """Nothing is left to run: channels that show their value only then do so now."""
        for key in self.program.finishing:
            channel = self.channels[key]
            if channel.finish():
                self._note(key, channel, changes)

    def control(self, plan: Plan, ran: list[str]) -> dict[str, Any]:
        """The engine's account for the checkpoint; as small as what is going on."""
        control: dict[str, Any] = {"next": plan[0], "ran": ran}
        if self.joins:
            control["joins"] = {key: sorted(barrier.seen) for key, barrier in self.joins.items()}
        if self.deferred:
            control["deferred"] = list(self.deferred)
        if self.task:
            control["task"] = self.task
        if self.branch:
            control["branch"] = self.branch
        return control

    def everything(self) -> Any:
        """All values that nodes can see, whatever the output schema leaves out."""
        return show(self.program, self.view, narrow=False)


def names_of(entries: Iterable[Entry]) -> list[str]:
    """The names of the tasks, each once, in order."""
    return list(dict.fromkeys([name for name, _, _, _ in entries]))


def writes_of(entries: Sequence[Entry]) -> Sequence[Write]:
    """What the tasks wrote, in order."""
    if len(entries) == 1:
        return entries[0][2]
    return [write for _, _, writes, _ in entries for write in writes]


def group(writes: Iterable[Write]) -> dict[str, list[Any]]:
    """The written values per channel, in order."""
    grouped: dict[str, list[Any]] = {}
    for key, value in writes:
        if key in grouped:
            grouped[key].append(value)
        else:
            grouped[key] = [value]
    return grouped


def preview(
    channels: Mapping[str, BaseChannel[Any]], view: Mapping[str, Any], writes: Iterable[Write]
) -> dict[str, Any]:
    """The view as it would be with these writes applied; nothing is changed."""
    result = dict(view)
    for key, values in group(writes).items():
        if type(channels[key]) is LastValue and len(values) == 1 and type(values[0]) is not Overwrite:
            result[key] = values[0]
            continue
        channel = channels[key].copy()
        channel.update(values)
        if not channel.readable:
            continue
        if channel.is_available():
            result[key] = channel.get()
        else:
            result.pop(key, None)
    return result


def view_with(state: State, entries: Sequence[Entry]) -> Mapping[str, Any]:
    """The view with what finished tasks of an unfinished superstep wrote.

    Without it where the writes contradict each other or a reducer refuses them: running on says so, and a
    look at the thread, or a question that is open beside them, must not be lost to it.
    """
    if not entries:
        return state.view
    try:
        return preview(state.channels, state.view, writes_of(entries))
    except Exception:
        return state.view


def show(program: Program, view: Mapping[str, Any], narrow: bool = True) -> Any:
    """The values of a view in the order of the schema: those of the output, or all if not `narrow`."""
    if program.gives is not None:
        return view.get(program.gives)
    keys = program.output.keys if narrow and program.output.keys is not None else program.channels
    return {key: view[key] for key in keys if key in view}


def join_key(join: Join) -> str:
    """Names a join the same in every process, whatever the order it was added in."""
    return f"{'+'.join(sorted(join.sources))}:{join.target}"


def plan_of(control: Mapping[str, Any], work: Mapping[str, Any] | None) -> Plan:
    """What a checkpoint says runs next."""
    return list(control.get("next", ())), list((work or {}).get("sends", ()))


def work_of(plan: Plan) -> dict[str, Any] | None:
    """The inputs that the plan brings along, for the checkpoint."""
    _, sends = plan
    return {"sends": sends} if sends else None
