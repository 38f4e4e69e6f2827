"""The functional API: workflows as plain functions (names and signatures: LangGraph).

An entrypoint is a graph of one node. A task that it calls, or that a node of any graph calls, is a task of its run
like any other: it has retries, a timeout and a cache of its own, its result is recorded when it has finished and
never computed again, and what it asks is reported with everything else that is asked.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import (
    Any,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    TypeVar,
    get_args,
    get_origin,
    overload,
)

from graphkit.annotations import hints_of_function
from graphkit.calling import TaskFuture, call
from graphkit.channels import BaseChannel, EphemeralValue, LastValue
from graphkit.compiled import CompiledGraph
from graphkit.constants import END, PREVIOUS, RETURN, START
from graphkit.engine.program import Caching, Callee, NodeSpec, Program, Shape, Vocabulary
from graphkit.engine.request import DEFAULT_RECURSION_LIMIT
from graphkit.frame import running
from graphkit.graph.identifier import identifier
from graphkit.graph.node import callable_forms, callee_of, check_name, name_of
from graphkit.graph.state import Retry, Timeout, cache_policy_of, policies
from graphkit.type_variables import ContextT
from graphkit.types import CachePolicy, TimeoutPolicy
from graphkit_checkpoint.base import BaseCheckpointSaver
from graphkit_checkpoint.cache.base import BaseCache
from graphkit_checkpoint.serde import register_annotations

__all__ = ["entrypoint", "task"]

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S")


# Tasks


class TaskFunction(Generic[P, T]):
    """A function that runs as a task of its own. Made by `task`."""

    def __init__(
        self,
        func: Callable[P, Awaitable[T]] | Callable[P, T],
        *,
        name: str | None,
        retry_policy: Retry | None,
        cache_policy: CachePolicy | None,
        timeout: Timeout | None,
    ) -> None:
        functools.update_wrapper(self, func)
        self.func = func
        self.forms = callable_forms(func)
        self.__name__ = check_name(name or name_of(func))
        self._node = NodeSpec(
            name=self.__name__,
            callee=_callee(self),
            shape=Shape(None),
            result=_returned,
            retry=policies(retry_policy),
            cache=_caching(("task",), self.__name__, func, _of_arguments(cache_policy_of(cache_policy))),
            timeout=TimeoutPolicy.coerce(timeout),
        )

    def __reduce__(self) -> str:
        # A worker in another process finds the task, and so its function, where its module has it.
        return str(vars(self)["__qualname__"])

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> TaskFuture[T]:
        """Start the task; returns a future at once. Outside of a run: `RuntimeError`."""
        return call(running(f"the task {self.__name__!r}"), self._node, args, kwargs)

    def clear_cache(self, cache: BaseCache) -> None:
        """Forget the task's results in this cache."""
        if self._node.cache is not None:
            cache.clear([self._node.cache.namespace])

    async def aclear_cache(self, cache: BaseCache) -> None:
        """`clear_cache` on the running event loop."""
        if self._node.cache is not None:
            await cache.aclear([self._node.cache.namespace])


class TaskDecorator(Protocol):
    """What `task(...)` with options gives."""

    @overload
    def __call__(self, func: Callable[P, Awaitable[T]], /) -> TaskFunction[P, T]: ...
    @overload
    def __call__(self, func: Callable[P, T], /) -> TaskFunction[P, T]: ...


@overload
def task(
    func: None = None,
    /,
    *,
    name: str | None = None,
    retry_policy: Retry | None = None,
    cache_policy: CachePolicy | None = None,
    timeout: Timeout | None = None,
) -> TaskDecorator: ...
@overload
def task(func: Callable[P, Awaitable[T]], /) -> TaskFunction[P, T]: ...
@overload
def task(func: Callable[P, T], /) -> TaskFunction[P, T]: ...
def task(
    func: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    retry_policy: Retry | None = None,
    cache_policy: CachePolicy | None = None,
    timeout: Timeout | None = None,
) -> Any:
    """Make a function a task: `@task`, or `@task(name=..., retry_policy=...)`.

    Called inside an entrypoint, a node or another task, it starts at once, beside the caller, and the call returns a
    future. It may be blocking or a coroutine function, whatever its caller is. With a checkpointer its result must
    be storable. `cache_policy` needs a cache; its `key_func` is given the arguments of the call.
    """

    def decorated(func: Callable[..., Any]) -> TaskFunction[Any, Any]:
        return TaskFunction(
            func, name=name, retry_policy=retry_policy, cache_policy=cache_policy, timeout=timeout
        )

    return decorated if func is None else decorated(func)


def _returned(value: Any) -> list[tuple[str, Any]]:
    return [(RETURN, value)]


def _callee(made: TaskFunction[Any, Any]) -> Callee:
    """The function as a callee: it is given (args, kwargs), and what is injected where the call leaves it free."""
    plain = callee_of(made.func, made.__name__, given=0)
    signature = inspect.signature(made.func) if plain.inject else None
    call = None if plain.call is None else functools.partial(_spread, made, "call", signature)
    acall = None if plain.acall is None else functools.partial(_spread, made, "acall", signature)
    return Callee(plain.name, call, acall, plain.inject)


def _spread(
    made: TaskFunction[Any, Any],
    form: Literal["call", "acall"],
    signature: inspect.Signature | None,
    arg: tuple[tuple[Any, ...], dict[str, Any]],
    **offered: Any,
) -> Any:
    args, kwargs = arg
    if signature is not None:
        given = signature.bind_partial(*args, **kwargs).arguments
        kwargs = {**kwargs, **{name: value for name, value in offered.items() if name not in given}}
    function = made.forms[form == "acall"]
    assert function is not None
    return function(*args, **kwargs)


def _of_arguments(policy: CachePolicy | None) -> CachePolicy | None:
    if policy is None or policy.key_func is None:
        return policy
    return CachePolicy(key_func=functools.partial(_key_of, policy.key_func), ttl=policy.ttl)


def _key_of(key_func: Callable[..., Any], arg: tuple[tuple[Any, ...], dict[str, Any]]) -> Any:
    return key_func(*arg[0], **arg[1])


# Entrypoints


class entrypoint(Generic[ContextT]):
    """Make a function a workflow: `@entrypoint(checkpointer=...)` gives a compiled graph of one node.

    The function takes one input, of any type, and by parameter name what nodes get too (`config`, `runtime`,
    `writer`, `store`), and `previous`: what its last run on the thread has returned, or has saved with
    `entrypoint.final`; None on the first. It is run again from its top after a question, an error or a crash, and
    finds the results of its tasks; so what takes long, costs money or is different every time belongs into a task.
    """

    @dataclass(frozen=True, slots=True)
    class final(Generic[R, S]):
        """Return `value`, and save another one for the next run's `previous`."""

        value: R
        save: S

    def __init__(
        self,
        checkpointer: BaseCheckpointSaver | None = None,
        store: Any = None,
        cache: BaseCache | None = None,
        context_schema: type[ContextT] | None = None,
        cache_policy: CachePolicy | None = None,
        retry_policy: Retry | None = None,
        timeout: Timeout | None = None,
    ) -> None:
        self.checkpointer = checkpointer
        self.store = store
        self.cache = cache
        self.context_schema = context_schema
        self.cache_policy = cache_policy
        self.retry_policy = retry_policy
        self.timeout = timeout

    def __call__(self, func: Callable[..., Any]) -> CompiledGraph:
        """The function as a graph. Raises `NotImplementedError` for a generator, `ValueError` for a function without
        an input."""
        if inspect.isgeneratorfunction(func) or inspect.isasyncgenfunction(func):
            raise NotImplementedError(
                "an entrypoint cannot be a generator; write to its stream with `writer`"
            )
        if not inspect.signature(func).parameters:
            raise ValueError("an entrypoint needs a parameter for its input")
        name = check_name(name_of(func))
        return CompiledGraph(
            self._program(func, name),
            function=func,
            checkpointer=self.checkpointer,
            cache=self.cache,
            store=self.store,
            recursion_limit=DEFAULT_RECURSION_LIMIT,
            context_schema=self.context_schema,
        )

    def _program(self, func: Callable[..., Any], name: str) -> Program:
        given, returned, saved = _annotations(func)
        for annotation in (given, returned, saved):
            register_annotations(annotation)
        node = NodeSpec(
            name=name,
            callee=callee_of(func, name),
            shape=Shape((START,), is_root=True),
            result=_finished,
            retry=policies(self.retry_policy),
            cache=_caching(("entrypoint",), name, func, cache_policy_of(self.cache_policy)),
            timeout=TimeoutPolicy.coerce(self.timeout),
            coordinates=True,
        )
        channels: dict[str, BaseChannel[Any]] = {
            START: EphemeralValue(given, key=START),
            END: LastValue(returned, END),
            PREVIOUS: LastValue(saved, PREVIOUS),
        }
        return Program(
            name=name,
            channels=channels,
            nodes={name: node},
            entry=NodeSpec(
                name=START,
                callee=Callee(START, _same, None),
                shape=Shape(None),
                successors=(name,),
                result=_taken,
            ),
            joins=[],
            input_keys=frozenset({START}),
            output=Shape((END,), is_root=True),
            words=Vocabulary(frozenset(channels), frozenset({name})),
            takes=START,
            gives=END,
        )


def _taken(value: Any) -> list[tuple[str, Any]]:
    return [(START, value)]


def _finished(value: Any) -> list[tuple[str, Any]]:
    """The writes of an entrypoint: what it returns, and what it saves for the next run."""
    if isinstance(value, entrypoint.final):
        return [(END, value.value), (PREVIOUS, value.save)]
    return [(END, value), (PREVIOUS, value)]


def _annotations(func: Callable[..., Any]) -> tuple[Any, Any, Any]:
    """The types of an entrypoint's input, output and saved value."""
    hints = hints_of_function(func)
    first = next(iter(inspect.signature(func).parameters))
    returned = hints.get("return", Any)
    if returned is entrypoint.final:
        returned = Any
    if get_origin(returned) is entrypoint.final:
        return hints.get(first, Any), *get_args(returned)
    return hints.get(first, Any), returned, returned


def _caching(
    kind: tuple[str, ...], name: str, func: Callable[..., Any], policy: CachePolicy | None
) -> Caching | None:
    return None if policy is None else Caching((*kind, name, identifier(func)), policy)


def _same(value: Any) -> Any:
    return value
