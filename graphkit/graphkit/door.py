"""The door: a caller's input, config and options, read once into a typed request.

Everything that can be wrong with them is found here, before anything is loaded.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

from graphkit.context import ContextSchema
from graphkit.control import RunControl
from graphkit.drivers.session import Session
from graphkit.engine.about import elsewhere
from graphkit.engine.attempt import NOTHING, Attempt, Emitter, Live, Scope
from graphkit.engine.events import News
from graphkit.engine.identity import call_of, lasting
from graphkit.engine.matching import Call
from graphkit.engine.nested import Origin, Site, call_of_graph
from graphkit.engine.program import Program
from graphkit.engine.request import EVERY, Names, Position, Request
from graphkit.engine.unwritten import Unwritten
from graphkit.frame import Frame, current
from graphkit.inside import Inner
from graphkit.types import Durability, RunnableConfig, StreamMode
from graphkit_checkpoint.admission import check_thread_id
from graphkit_checkpoint.base import BaseCheckpointSaver
from graphkit_checkpoint.cache.base import BaseCache
from graphkit_checkpoint.errors import ConcurrentUpdateError
from graphkit_checkpoint.ownership import forget_token, new_token

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from graphkit.tracing import Traced

OnConflict = Literal["raise", "wait"]
Checkpointer = BaseCheckpointSaver | bool | None
"""What a graph is compiled with: a saver, or inside another graph True (it goes on with the state it had), False (it
stores nothing) or None (it has the state of one task)."""
CONFLICT_TIMEOUT = 30.0
Breakpoints = Sequence[str] | Literal["*"] | None


class RunOptions(TypedDict, total=False):
    """Options of one run.

    `context` is given to nodes as `runtime.context`; it must fit the graph's `context_schema`.
    `durability`: "sync" (default) commits every superstep before anything of it is shown, "async" while the
    next one runs, "exit" once at the end.
    `interrupt_before`, `interrupt_after` replace the breakpoints given to `compile` ([]: none).
    `executor` runs the nodes of this run. `on_conflict` says what to do while another run owns the thread:
    "raise" (default) or "wait", at most `conflict_timeout` seconds (default 30; None: without end).
    `control` is a `RunControl` by which the run can be asked to stop between two supersteps. `print_mode` prints
    the chunks of these stream modes; `debug` prints lines to read, or not, whatever was given to `compile`.
    """

    context: Any
    durability: Durability | None
    interrupt_before: Breakpoints
    interrupt_after: Breakpoints
    executor: Executor | None
    on_conflict: OnConflict | None
    conflict_timeout: float | None
    control: RunControl | None
    print_mode: StreamMode | Sequence[StreamMode]
    debug: bool | None


_OPTIONS = frozenset(RunOptions.__annotations__)
_DURABILITIES = get_args(Durability)
_ON_CONFLICT = get_args(OnConflict)


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Setting:
    """What a compiled graph brings to every run of it."""

    program: Program
    checkpointer: BaseCheckpointSaver | bool | None
    cache: BaseCache | None
    store: Any
    before: Names
    after: Names
    recursion_limit: int
    executor: Executor | None
    context_schema: ContextSchema | None
    config: RunnableConfig
    on_conflict: OnConflict = "raise"
    conflict_timeout: float | None = CONFLICT_TIMEOUT
    debug: bool = False
    apart: bool = False
    """Whether a run made inside a task is a run of its own whatever its thread is called."""
    patience: float = field(init=False)
    """Seconds that a run waits for a thread that is owned, unless it says otherwise."""

    saver: BaseCheckpointSaver | None = field(init=False)
    """The graph's own; a nested graph uses the one around it."""

    def __post_init__(self) -> None:
        self.patience = patience(self.on_conflict, self.conflict_timeout)
        given = self.checkpointer
        if given is not None and not isinstance(given, (bool, BaseCheckpointSaver)):
            raise TypeError(f"checkpointer must be a saver, True, False or None, not {given!r}")
        for name, one in (("cache", self.cache), ("store", self.store)):
            if isinstance(one, (type, bool)):
                raise TypeError(
                    f"{name} must be a {name}, such as InMemory{name.title()}(), or None, not {one!r}"
                )
        self.saver = given if isinstance(given, BaseCheckpointSaver) else None


LANGCHAIN = "langchain_core.runnables.config"
"""What is loaded wherever somebody calls a runnable of LangChain."""
NOBODY = Call("", "")


class Door:
    """One run's way in. `close` it when the run has ended and has said what it waits for.

    With `nests`, a run that is made inside a task becomes part of that task's run: of its thread and its
    claim. It stays a run of its own if its config names another thread, or if only its own graph has a saver.
    """

    def __init__(
        self,
        setting: Setting,
        given: Any,
        config: RunnableConfig | None,
        options: RunOptions,
        nests: bool = True,
    ) -> None:
        if not _OPTIONS.issuperset(options):
            unknown = sorted(set(options) - _OPTIONS)
            raise TypeError(
                f"a run has no option {', '.join(map(repr, unknown))}; it takes {', '.join(RunOptions.__annotations__)}"
            )
        self.setting = setting
        self.given = given
        self.options = options
        self.config = merged(setting.config, config)
        around = current.get()
        self.frame = around if nests and around and _belongs(around, self.config, setting) else None
        if nests and around is not None:
            self.config = _within(around, self.config)
        if setting.checkpointer is True and self.frame is None:
            raise RuntimeError(
                f"graph {setting.program.name!r} was compiled with checkpointer=True: it keeps its state where the "
                f"graph around it does, so it runs only inside a node; give it a saver to run it by itself"
            )
        outer = self.outer = NOTHING if self.frame is None else self.frame.attempt.scope.live
        self.saver = outer.saver or setting.saver if setting.checkpointer is not False else None
        self.cache = setting.cache if setting.cache is not None else outer.cache
        self.pool = options.get("executor") or setting.executor or outer.pool
        # One deeper than whatever runs here, nested or not: its tasks wait for this run's.
        self.depth = around.attempt.scope.depth + 1 if around else 0
        self.token = ""
        self.around = around if nests else None
        self.inner: Inner | None = None
        self.control = _control(options.get("control"), outer.control)
        self._timed = self.frame if self.frame is not None and self.frame.is_timed else None
        if self._timed is not None:
            self._timed.beat()
        self.called: tuple[Site, Call] | None = None
        self.origin: Origin | None = None
        self.task = ""
        self.edits = not nests  # an edit belongs to no task, and has no context
        self.inside: Position | None = None
        self.exclusive = ""
        self.busy: dict[str, Door] = {} if self.frame is None else outer.busy

    def session(self, live: bool = False) -> Session:
        beat = self._timed.beat if self._timed is not None else None
        return Session(self.saver, self.cache, self.pool, self.depth, live, self.control, beat)

    def request(
        self,
        post: Callable[[Attempt, News], None] | None = None,
        listen: frozenset[str] = frozenset(),
        below: frozenset[str] = frozenset(),
        emit: Emitter | None = None,
    ) -> Request:
        """The run as asked for. Raises `InvalidThreadIdError` and `ValueError`s naming the option."""
        nested, stored = self.frame is not None, self.saver is not None
        place = self._nested_place() if nested else self._own_place()
        setting, program = self.setting, self.setting.program
        request = Request(
            self.given,
            self._scope(place, post, listen, below, emit),
            os.urandom(4).hex() if stored or not nested else place.namespace,
            stored,
            place.checkpoint_id,
        )
        # Not as keywords, of which a class makes a dict first: this is a part of what every run costs.
        request.recursion_limit = positive_int(
            self.config.get("recursion_limit", setting.recursion_limit), "recursion_limit"
        )
        concurrency = self.config.get("max_concurrency")
        if concurrency is not None:
            request.max_concurrency = positive_int(concurrency, "max_concurrency")
        before, after = self.options.get("interrupt_before"), self.options.get("interrupt_after")
        request.before = (
            setting.before if before is None else check_nodes(before, program, "interrupt_before")
        )
        request.after = setting.after if after is None else check_nodes(after, program, "interrupt_after")
        request.metadata = self._metadata()
        request.nested = nested
        # What runs inside a task and stores nothing would have to begin anew: it runs to its end.
        request.drains = stored or not place.thread_id
        request.beats = self._timed is not None
        request.patience = self._patience()
        if self.frame is not None:
            request.answers = self.frame.attempt.answers
        request.called = self.called
        request.origin = self.origin
        request.task = self.task
        request.inside = self.inside
        return request

    def _metadata(self) -> dict[str, Any]:
        """What the caller wants stored with each checkpoint; the id of the run is found by `delete_for_runs`."""
        run_id = self.config.get("run_id")
        named: dict[str, Any] = {} if run_id is None else {"run_id": str(run_id)}
        if self.frame is not None and self.saver is not None:
            named["parents"] = self._parents(self.frame)
        return {**(self.config.get("metadata") or {}), **named}

    @staticmethod
    def _parents(frame: Frame) -> dict[str, str]:
        """The checkpoints of the graphs around a run inside of this frame, by namespace."""
        attempt = frame.attempt
        return {**attempt.scope.parents, attempt.scope.namespace: attempt.place.checkpoint_id}

    def _patience(self) -> float:
        options, setting = self.options, self.setting
        if "on_conflict" not in options and "conflict_timeout" not in options:
            return setting.patience
        on_conflict = options.get("on_conflict") or setting.on_conflict
        timeout = options.get("conflict_timeout", setting.conflict_timeout)
        return patience(on_conflict, timeout)

    def _own_place(self) -> Position:
        if self.saver is None:
            return Position("")
        configurable = self.config.get("configurable", {})
        thread_id = check_thread_id(configurable.get("thread_id"))
        self.token = new_token()
        place = Position.of(thread_id, configurable)
        if place.namespace and not self.edits:
            self.inside, place = place, Position(thread_id)
        return place

    def _nested_place(self) -> Position:
        """Below the task around this run: its thread, its claim, and a namespace for each call it makes."""
        assert self.frame is not None
        scope, site = self.frame.attempt.scope, self.frame.site
        if self.setting.checkpointer is True and self.saver is not None:
            return Position(scope.thread_id, self._lasting_namespace(site))
        if self._is_node and not site.entered:
            site.entered = True
            self.origin = site.origin
            return Position(scope.thread_id, site.base)
        # Without a thread nothing is ever found again.
        call = call_of_graph(self.setting.program, self.given) if scope.thread_id else NOBODY
        call = call._replace(ordered=self.frame.ordered)
        namespace = ""
        if self.saver is None:
            namespace = site.claim_unstored(call)
        elif site.is_known:
            namespace, self.origin = site.claim(call)
        else:
            self.called = site, call
        return Position(scope.thread_id, namespace)

    def _lasting_namespace(self, site: Site) -> str:
        """That of a graph which goes on with the state it had. Raises `ConcurrentUpdateError` if it runs already."""
        assert self.frame is not None
        call = None if self._is_node and not site.entered else call_of(self.setting.program.called, "")
        self.exclusive = lasting(site.base) if call is None else site.lasting(call)
        if self.busy.setdefault(self.exclusive, self) is not self:
            self.exclusive = ""
            raise ConcurrentUpdateError(
                f"graph {self.setting.program.name!r} keeps its state (checkpointer=True), so node "
                f"{self.frame.attempt.node.name!r} can call it once at a time, and a call of it is running; make the "
                f"calls one after the other, or compile the graph without checkpointer=True"
            )
        site.entered = site.entered or call is None
        namespace = self.exclusive if call is None else site.claim_lasting(call, self.exclusive)
        if site.origin is not None and site.origin.namespace == namespace:
            self.origin = site.origin
        self.task = self.frame.asker
        return namespace

    @property
    def _is_node(self) -> bool:
        """Whether the node of the task around this run is this graph: it is called once and needs no number."""
        assert self.frame is not None
        return self.frame.attempt.node.subgraph is self.setting.program

    def _scope(
        self,
        place: Position,
        post: Callable[[Attempt, News], None] | None,
        listen: frozenset[str],
        below: frozenset[str],
        emit: Emitter | None,
    ) -> Scope:
        setting, frame, durability = self.setting, self.frame, self._durability()
        token = self.token if frame is None else frame.attempt.scope.token
        scope = Scope(self.config, place.thread_id, place.namespace, token, durability)
        scope.unchecked_matching = setting.program.unchecked_matching
        scope.depth = self.depth
        scope.listen, scope.below = listen, below
        scope.heard = ("messages" in listen and LANGCHAIN in sys.modules) or self._has_callbacks()
        if frame is not None:
            scope.branch = frame.attempt.branch
            if self.saver is not None:
                scope.parents = self._parents(frame)
        store = setting.store if setting.store is not None else self.outer.store
        live = Live(self.busy, self.saver, self.cache, store, self._context(), emit, self.pool, post)
        if self._timed is not None:
            live.beat, live.heartbeat = self._timed.beat, self._timed.heartbeat
        live.control = self.control
        live.unwritten = self.outer.unwritten if durability != "exit" else self._unwritten
        scope.live = live
        return scope

    @property
    def _unwritten(self) -> Unwritten:
        return self.outer.unwritten or Unwritten(os.urandom(4).hex())

    def _context(self) -> Any:
        """What nodes know as `runtime.context`: the run's own, else that of the run around it."""
        own = self.options.get("context")
        context = own if own is not None else self.outer.context
        schema = self.setting.context_schema
        if schema is None or self.edits:
            return context
        return schema.checked(context, inherited=own is None and context is not None)

    def _durability(self) -> Durability:
        given = self.options.get("durability")
        if given is None:
            return self.frame.attempt.scope.durability if self.frame else "sync"
        if given not in _DURABILITIES:
            raise ValueError(f"durability must be 'sync', 'async' or 'exit', not {given!r}")
        return given

    def _has_callbacks(self) -> bool:
        return bool(self.config.get("callbacks")) and "langchain_core" in sys.modules

    def traced(self) -> Traced | None:
        """The run as callbacks of LangChain hear of it, if there are any. What runs in it is told of in it."""
        if not self._has_callbacks():
            return None
        from graphkit.tracing import Traced, name_of

        config = self.config
        if self.around is not None:  # whose run is named
            config = {**config, "run_id": None, "run_name": ""}
        return Traced(config, config.get("run_name") or name_of(self.setting.program), self.given)

    def inherit(self, traced: Traced) -> None:
        """What runs in this run is inside what callbacks hear of as `traced`."""
        self.config = {**self.config, "callbacks": traced.children}

    def enter(self, run: Inner) -> None:
        """Make the run known to the task around it, nested in its run or not: the task ends after it."""
        if self.around is not None:
            self.inner = run
            self.around.enter(run)

    def close(self) -> None:
        if self.exclusive:
            self.busy.pop(self.exclusive, None)
        if self.token:
            forget_token(self.token)
        if self.around is not None and self.inner is not None:
            self.around.leave(self.inner)


def _control(given: Any, inherited: RunControl | None) -> RunControl:
    if given is None:
        return inherited or RunControl.unshared()
    if not isinstance(given, RunControl):
        raise TypeError(f"control must be a RunControl, not {given!r:.100}")
    return given


def _belongs(frame: Frame, config: RunnableConfig, setting: Setting) -> bool:
    """Whether a run made inside this task is part of that task's run."""
    scope = frame.attempt.scope
    if setting.apart:
        return False
    thread_id = config.get("configurable", {}).get("thread_id")
    if thread_id is not None and thread_id != scope.thread_id:
        return False
    return scope.live.saver is not None or setting.saver is None


def _inheritable(frame: Frame) -> RunnableConfig:
    """The surrounding run's config, without the checkpoint that it addresses."""
    config = frame.attempt.scope.config
    own = ("checkpoint_id", "checkpoint_ns", "checkpoint_map")
    kept = {key: value for key, value in config.get("configurable", {}).items() if key not in own}
    inherited: RunnableConfig = {**config, "configurable": kept}
    if frame.traced is not None:
        inherited["callbacks"] = frame.traced.children
    return inherited


def _within(frame: Frame, given: RunnableConfig) -> RunnableConfig:
    """`given` over the surrounding run's config: what a node was given may be passed on, but not where it runs."""
    config = merged(_inheritable(frame), given)
    metadata = config.get("metadata")
    return (
        {**config, "metadata": elsewhere(metadata)} if metadata and "langgraph_node" in metadata else config
    )


def merged(base: RunnableConfig, given: RunnableConfig | None) -> RunnableConfig:
    """`given` over `base`; "configurable" and "metadata" key by key, "tags" and lists of "callbacks" together. Raises
    `ValueError` for a malformed one."""
    if given is None or (not given and type(given) is dict):
        return base
    if type(given) is not dict and not isinstance(given, Mapping):
        raise ValueError(
            f"config must be a dict such as {{'configurable': {{'thread_id': ...}}}}, not {given!r:.100}"
        )
    result: Any = {**base, **given}
    for key in ("configurable", "metadata"):
        part = given.get(key)
        if part is not None and type(part) is not dict and not isinstance(part, Mapping):
            raise ValueError(f"config[{key!r}] must be a dict, not {part!r:.100}")
        result[key] = {**(base.get(key) or {}), **(part or {})}  # type: ignore[dict-item]
    if base.get("tags") and given.get("tags"):
        result["tags"] = list(dict.fromkeys([*base["tags"], *given["tags"]]))
    if base.get("callbacks") and type(given.get("callbacks")) is list:
        result["callbacks"] = _with_handlers(base["callbacks"], given["callbacks"])
    return result  # type: ignore[no-any-return]


def _with_handlers(callbacks: Any, more: list[Any]) -> Any:
    """LangChain's handlers, or a manager of them, with more (source: LangChain's `merge_configs`)."""
    if isinstance(callbacks, list):
        return [*callbacks, *(handler for handler in more if handler not in callbacks)]
    manager = callbacks.copy()
    for handler in more:
        manager.add_handler(handler, inherit=True)
    return manager


def positive_int(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, not {value!r}")
    return value


def patience(on_conflict: Any, timeout: Any) -> float:
    """Seconds to wait for a thread that is owned; 0 for "raise"."""
    if on_conflict not in _ON_CONFLICT:
        raise ValueError(f"on_conflict must be 'raise' or 'wait', not {on_conflict!r}")
    if timeout is not None and (
        isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0
    ):
        raise ValueError(f"conflict_timeout must be a number of seconds above 0, or None, not {timeout!r}")
    if on_conflict == "raise":
        return 0.0
    return math.inf if timeout is None else float(timeout)


def check_nodes(names: Breakpoints, program: Program, option: str) -> Names:
    """Breakpoints as a set of names; a name alone is one. Raises `ValueError` naming what is no node."""
    if names is None:
        return frozenset()
    if names == EVERY:
        return EVERY
    if isinstance(names, str):
        names = [names]
    if not isinstance(names, Iterable):
        raise ValueError(f'{option} must be a list of node names or "*", not {names!r}')
    unknown = [name for name in names if name not in program.nodes]
    if unknown:
        raise ValueError(
            f"{option} names {', '.join(map(repr, unknown))}, which the graph does not have; it has "
            f"{', '.join(program.nodes)}"
        )
    return frozenset(names)
