"""The door: a caller's input, config and options, read once into a typed request.

Everything that can be wrong with them is found here, before anything is loaded.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from graphkit.drivers.session import Session
from graphkit.engine.attempt import Live, Scope
from graphkit.engine.program import Program
from graphkit.engine.request import EVERY, Names, Request
from graphkit.frame import Frame, current
from graphkit.types import Durability, RunnableConfig
from graphkit_checkpoint.base import BaseCheckpointSaver, check_thread_id
from graphkit_checkpoint.cache import BaseCache
from graphkit_checkpoint.ownership import forget_token, new_token

if TYPE_CHECKING:
    from concurrent.futures import Executor

Breakpoints = Sequence[str] | Literal["*"] | None


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Options:
    """What a caller may say of one run, besides its input and config."""

    context: Any = None
    durability: Durability | None = None
    interrupt_before: Breakpoints = None
    interrupt_after: Breakpoints = None
    executor: Executor | None = None


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


class Door:
    """One run's way in. `close` it when the run has ended.

    With `nests`, a run that is made inside a task becomes part of that task's run.
    """

    def __init__(
        self,
        setting: Setting,
        given: Any,
        config: RunnableConfig | None,
        options: Options,
        nests: bool = True,
    ) -> None:
        self.setting = setting
        self.given = given
        self.options = options
        self.config = merged(setting.config, config)
        self.frame = _surrounding(self.config) if nests else None
        if self.frame is not None:
            self.config = merged(_inheritable(self.frame), self.config)
        self.token = ""

    def session(self, listen: frozenset[str]) -> Session:
        return Session(
            saver=self.saver,
            cache=self.setting.cache,
            pool=self.options.executor or self.setting.executor or self._inherited("pool"),
            depth=self.frame.attempt.scope.depth + 1 if self.frame else 0,
            live="custom" in listen,
        )

    @property
    def saver(self) -> BaseCheckpointSaver | None:
        if self.setting.alone:
            return None
        inherited: BaseCheckpointSaver | None = self._inherited("saver")
        return inherited or self.setting.saver if self._joins_thread else self.setting.saver

    @property
    def _joins_thread(self) -> bool:
        """Whether this run is part of the thread of the task around it."""
        return self.frame is not None and (self._inherited("saver") is not None or self.setting.saver is None)

    def _inherited(self, name: str) -> Any:
        return getattr(self.frame.attempt.scope.live, name) if self.frame else None

    def request(self, listen: frozenset[str], emit: Callable[[Any], None] | None, is_async: bool) -> Request:
        """The run as asked for. Raises `InvalidThreadIdError` and `ValueError`s naming the option."""
        nested, saver = self.frame is not None, self.saver
        place = self._nested_place() if nested else self._own_place()
        durability = self._durability()
        limit = positive_int(
            self.config.get("recursion_limit", self.setting.recursion_limit), "recursion_limit"
        )
        concurrency = self.config.get("max_concurrency")
        if concurrency is not None:
            positive_int(concurrency, "max_concurrency")
        program, options = self.setting.program, self.options
        return Request(
            input=self.given,
            scope=self._scope(place, durability, emit, is_async),
            nonce=os.urandom(4).hex() if saver is not None or not nested else place["namespace"],
            stored=saver is not None,
            durability=durability,
            recursion_limit=limit,
            max_concurrency=concurrency,
            before=_override(options.interrupt_before, self.setting.before, program, "interrupt_before"),
            after=_override(options.interrupt_after, self.setting.after, program, "interrupt_after"),
            listen=listen,
            metadata=dict(self.config.get("metadata") or {}),
            nested=nested,
            answers=self.frame.attempt.answers if self.frame else {},
            **place,
        )

    def _own_place(self) -> dict[str, Any]:
        configurable = self.config.get("configurable", {})
        if self.saver is None:
            return {"thread_id": "", "namespace": "", "checkpoint_id": None, "token": ""}
        thread_id = check_thread_id(configurable.get("thread_id"))
        self.token = new_token()
        return {
            "thread_id": thread_id,
            "namespace": configurable.get("checkpoint_ns") or "",
            "checkpoint_id": configurable.get("checkpoint_id"),
            "token": self.token,
        }

    def _nested_place(self) -> dict[str, Any]:
        """Below the task around this run: its thread, its claim, and a namespace for each call it makes."""
        assert self.frame is not None
        frame, scope = self.frame, self.frame.attempt.scope
        call, frame.calls = frame.calls, frame.calls + 1
        own = f"{frame.attempt.node.name}:{frame.id}" + (f":{call}" if call else "")
        return {
            "thread_id": scope.thread_id or "",
            "namespace": f"{scope.namespace}|{own}" if scope.namespace else own,
            "checkpoint_id": None,
            "token": scope.token,
        }

    def _scope(
        self,
        place: dict[str, Any],
        durability: Durability,
        emit: Callable[[Any], None] | None,
        is_async: bool,
    ) -> Scope:
        options, setting = self.options, self.setting
        context = options.context if options.context is not None else self._inherited("context")
        return Scope(
            config=self.config,
            thread_id=place["thread_id"],
            namespace=place["namespace"],
            token=place["token"],
            durability=durability,
            unchecked_matching=setting.program.unchecked_matching,
            depth=self.frame.attempt.scope.depth + 1 if self.frame else 0,
            is_async=is_async,
            live=Live(
                saver=self.saver,
                store=setting.store if setting.store is not None else self._inherited("store"),
                context=_context(setting.context_schema, context),
                emit=emit,
                pool=options.executor or setting.executor or self._inherited("pool"),
            ),
        )

    def _durability(self) -> Durability:
        given = self.options.durability
        if given is None:
            return self.frame.attempt.scope.durability if self.frame else "sync"
        if given not in get_args(Durability):
            raise ValueError(f"durability must be 'sync', 'async' or 'exit', not {given!r}")
        return given

    def close(self) -> None:
        if self.token:
            forget_token(self.token)


def _surrounding(config: RunnableConfig) -> Frame | None:
    """The task that this run is made from; None if there is none, or the config names another thread."""
    frame = current.get()
    if frame is None:
        return None
    thread_id = config.get("configurable", {}).get("thread_id")
    return frame if thread_id is None or thread_id == frame.attempt.scope.thread_id else None


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
