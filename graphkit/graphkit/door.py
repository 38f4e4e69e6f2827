"""The door: a caller's input, config and options, read once into a typed request.

Everything that can be wrong with them is found here, before anything is loaded.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict, get_args

from graphkit.drivers.session import Session
from graphkit.engine.attempt import Live, Scope
from graphkit.engine.program import Program
from graphkit.engine.request import EVERY, Names, Request
from graphkit.frame import Frame, current
from graphkit.types import Durability, RunnableConfig
from graphkit_checkpoint.admission import check_thread_id
from graphkit_checkpoint.base import BaseCheckpointSaver
from graphkit_checkpoint.cache.base import BaseCache
from graphkit_checkpoint.ownership import forget_token, new_token

if TYPE_CHECKING:
    from concurrent.futures import Executor

OnConflict = Literal["raise", "wait"]
CONFLICT_TIMEOUT = 30.0
Breakpoints = Sequence[str] | Literal["*"] | None


class RunOptions(TypedDict, total=False):
    """Options of one run.

    `context` is given to nodes as `runtime.context`. `durability`: "sync" (default) commits every superstep
    before anything of it is shown, "async" while the next one runs, "exit" once at the end.
    `interrupt_before`, `interrupt_after` replace the breakpoints given to `compile` ([]: none).
    `executor` runs the nodes of this run. `on_conflict` says what to do while another run owns the thread:
    "raise" (default) or "wait", at most `conflict_timeout` seconds (default 30; None: without end).
    """

    context: Any
    durability: Durability | None
    interrupt_before: Breakpoints
    interrupt_after: Breakpoints
    executor: Executor | None
    on_conflict: OnConflict | None
    conflict_timeout: float | None


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Setting:
    """What a compiled graph brings to every run of it."""

    program: Program
    saver: BaseCheckpointSaver | None
    alone: bool
    cache: BaseCache | None
    store: Any
    before: Names
    after: Names
    recursion_limit: int
    executor: Executor | None
    context_schema: Any
    config: RunnableConfig
    on_conflict: OnConflict = "raise"
    conflict_timeout: float | None = CONFLICT_TIMEOUT


class Address(NamedTuple):
    """Where a run stands in storage; `token` is its claim."""

    thread_id: str = ""
    namespace: str = ""
    checkpoint_id: str | None = None
    token: str = ""


class Door:
    """One run's way in. `close` it when the run has ended.

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
        unknown = sorted(set(options) - set(RunOptions.__annotations__))
        if unknown:
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
            self.config = merged(_inheritable(around), self.config)
        self.saver = None if setting.alone else self._inherited("saver") or setting.saver
        self.pool = options.get("executor") or setting.executor or self._inherited("pool")
        # One deeper than whatever runs here, nested or not: its tasks wait for this run's.
        self.depth = around.attempt.scope.depth + 1 if around else 0
        self.token = ""

    def session(self, listen: frozenset[str]) -> Session:
        return Session(
            saver=self.saver,
            cache=self.setting.cache,
            pool=self.pool,
            depth=self.depth,
            live="custom" in listen,
        )

    def _inherited(self, name: str) -> Any:
        return getattr(self.frame.attempt.scope.live, name) if self.frame else None

    def request(self, listen: frozenset[str], emit: Callable[[Any], None] | None) -> Request:
        """The run as asked for. Raises `InvalidThreadIdError` and `ValueError`s naming the option."""
        nested, stored = self.frame is not None, self.saver is not None
        address = self._nested_address() if nested else self._own_address()
        limit = positive_int(
            self.config.get("recursion_limit", self.setting.recursion_limit), "recursion_limit"
        )
        concurrency = self.config.get("max_concurrency")
        if concurrency is not None:
            positive_int(concurrency, "max_concurrency")
        program, options = self.setting.program, self.options
        return Request(
            input=self.given,
            scope=self._scope(address, emit),
            nonce=os.urandom(4).hex() if stored or not nested else address.namespace,
            stored=stored,
            checkpoint_id=address.checkpoint_id,
            recursion_limit=limit,
            max_concurrency=concurrency,
            before=_override(
                options.get("interrupt_before"), self.setting.before, program, "interrupt_before"
            ),
            after=_override(options.get("interrupt_after"), self.setting.after, program, "interrupt_after"),
            listen=listen,
            metadata=self._metadata(),
            nested=nested,
            patience=self._patience(),
            answers=self.frame.attempt.answers if self.frame else {},
        )

    def _metadata(self) -> dict[str, Any]:
        """What the caller wants stored with each checkpoint; the id of the run is found by `delete_for_runs`."""
        run_id = self.config.get("run_id")
        named = {} if run_id is None else {"run_id": str(run_id)}
        return {**named, **(self.config.get("metadata") or {})}

    def _patience(self) -> float:
        options, setting = self.options, self.setting
        on_conflict = options.get("on_conflict") or setting.on_conflict
        timeout = options.get("conflict_timeout", setting.conflict_timeout)
        return patience(on_conflict, timeout)

    def _own_address(self) -> Address:
        if self.saver is None:
            return Address()
        configurable = self.config.get("configurable", {})
        thread_id = check_thread_id(configurable.get("thread_id"))
        self.token = new_token()
        namespace = configurable.get("checkpoint_ns") or ""
        return Address(thread_id, namespace, configurable.get("checkpoint_id"), self.token)

    def _nested_address(self) -> Address:
        """Below the task around this run: its thread, its claim, and a namespace for each call it makes."""
        assert self.frame is not None
        frame, scope = self.frame, self.frame.attempt.scope
        call, frame.calls = frame.calls, frame.calls + 1
        own = f"{frame.attempt.node.name}:{frame.id}" + (f":{call}" if call else "")
        namespace = f"{scope.namespace}|{own}" if scope.namespace else own
        return Address(scope.thread_id, namespace, None, scope.token)

    def _scope(self, address: Address, emit: Callable[[Any], None] | None) -> Scope:
        setting, context = self.setting, self.options.get("context")
        return Scope(
            config=self.config,
            thread_id=address.thread_id,
            namespace=address.namespace,
            token=address.token,
            durability=self._durability(),
            unchecked_matching=setting.program.unchecked_matching,
            depth=self.depth,
            live=Live(
                saver=self.saver,
                store=setting.store if setting.store is not None else self._inherited("store"),
                context=_context(
                    setting.context_schema, context if context is not None else self._inherited("context")
                ),
                emit=emit,
                pool=self.pool,
            ),
        )

    def _durability(self) -> Durability:
        given = self.options.get("durability")
        if given is None:
            return self.frame.attempt.scope.durability if self.frame else "sync"
        if given not in get_args(Durability):
            raise ValueError(f"durability must be 'sync', 'async' or 'exit', not {given!r}")
        return given

    def close(self) -> None:
        if self.token:
            forget_token(self.token)


def _belongs(frame: Frame, config: RunnableConfig, setting: Setting) -> bool:
    """Whether a run made inside this task is part of that task's run."""
    scope = frame.attempt.scope
    thread_id = config.get("configurable", {}).get("thread_id")
    if thread_id is not None and thread_id != scope.thread_id:
        return False
    return scope.live.saver is not None or setting.saver is None


def _inheritable(frame: Frame) -> RunnableConfig:
    """The surrounding run's config, without the checkpoint that it addresses."""
    config = frame.attempt.scope.config
    own = ("checkpoint_id", "checkpoint_ns")
    kept = {key: value for key, value in config.get("configurable", {}).items() if key not in own}
    return {**config, "configurable": kept}


def merged(base: RunnableConfig, given: RunnableConfig | None) -> RunnableConfig:
    """`given` over `base`; "configurable" and "metadata" key by key. Raises `ValueError` for a malformed one."""
    if given is None:
        return base
    if not isinstance(given, Mapping):
        raise ValueError(
            f"config must be a dict such as {{'configurable': {{'thread_id': ...}}}}, not {given!r:.100}"
        )
    result: Any = {**base, **given}
    for key in ("configurable", "metadata"):
        part = given.get(key)
        if part is not None and not isinstance(part, Mapping):
            raise ValueError(f"config[{key!r}] must be a dict, not {part!r:.100}")
        result[key] = {**(base.get(key) or {}), **(part or {})}  # type: ignore[dict-item]
    return result  # type: ignore[no-any-return]


def positive_int(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, not {value!r}")
    return value


def patience(on_conflict: Any, timeout: Any) -> float:
    """Seconds to wait for a thread that is owned; 0 for "raise"."""
    if on_conflict not in get_args(OnConflict):
        raise ValueError(f"on_conflict must be 'raise' or 'wait', not {on_conflict!r}")
    if timeout is not None and (
        isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0
    ):
        raise ValueError(f"conflict_timeout must be a number of seconds above 0, or None, not {timeout!r}")
    if on_conflict == "raise":
        return 0.0
    return math.inf if timeout is None else float(timeout)


def check_nodes(names: Breakpoints, program: Program, option: str) -> Names:
    """Breakpoints as a set of names. Raises `ValueError` naming what is no node."""
    if names is None:
        return frozenset()
    if names == EVERY:
        return EVERY
    if isinstance(names, str):
        raise ValueError(f'{option} must be a list of node names or "*", not {names!r}')
    unknown = [name for name in names if name not in program.nodes]
    if unknown:
        raise ValueError(
            f"{option} names {', '.join(map(repr, unknown))}, which the graph does not have; it has "
            f"{', '.join(program.nodes)}"
        )
    return frozenset(names)


def _override(given: Breakpoints, compiled: Names, program: Program, option: str) -> Names:
    return compiled if given is None else check_nodes(given, program, option)


def _context(schema: Any, context: Any) -> Any:
    if schema is not None and isinstance(context, dict) and isinstance(schema, type):
        builds = hasattr(schema, "__dataclass_fields__") or hasattr(schema, "model_fields")
        return schema(**context) if builds else context
    return context
