"""A function as a tool."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Generator
from types import AsyncGeneratorType, GeneratorType
from typing import Any, Generic, ParamSpec, TypeVar

from graphkit_prebuilt.content import JSONSchema, ToolSpec
from graphkit_prebuilt.loop.steps import OVER, Call, Steps, Stream
from graphkit_prebuilt.tools.context import ToolContext
from graphkit_prebuilt.tools.schema import InputSchema, takes_owner
from graphkit_prebuilt.tools.timeouts import TimeLimit
from graphkit_prebuilt.tools.tool import Progress, StepTool

P = ParamSpec("P")
R = TypeVar("R")


class FunctionTool(StepTool, Generic[P, R]):
    """A function as a tool; calling it calls the function. In a class it binds like any method.

    Models give it what its signature says, validated. Async functions are awaited; the values of generators (of either
    colour) are progress, and the last of them is what the call returns: what a generator returns, if it does.
    """

    __name__: str

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str,
        description: str,
        schema: InputSchema,
        input_schema: JSONSchema,
        timeout: float | None,
    ) -> None:
        functools.update_wrapper(self, function)
        self.descriptor: Any = function  # what binds it in a class: a classmethod for instance
        self.function = function
        self.schema = schema
        self.timeout = timeout
        self._awaits = inspect.iscoroutinefunction(function)
        self.blocks = not self._awaits and not inspect.isasyncgenfunction(function)
        self._spec: ToolSpec = {
            "name": name,
            "description": description,
            "inputSchema": {"json": input_schema},
        }

    @property
    def needs_owner(self) -> bool:
        """Whether this is a method without its object, which nobody can call."""
        return takes_owner(self.function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> FunctionTool[..., R]:
        binds = self.needs_owner and hasattr(self.descriptor, "__get__")
        function = self.descriptor.__get__(instance, owner) if binds else self.function
        if function is self.function:
            return self
        bound = copy.copy(self)
        bound.function = function
        return bound

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FunctionTool) and (self.function, self._spec) == (
            other.function,
            other._spec,
        )

    def __hash__(self) -> int:
        return hash((self.function, self.tool_name))

    def arguments(self, context: ToolContext) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call: what the model gives, and what is injected."""
        given = {"context": context, "agent": context.agent}
        return self.schema.arguments(context.tool_use["input"], given)

    def take(self, context: ToolContext, progress: Progress) -> Steps[Any]:
        args, kwargs = self.arguments(context)
        limit = None if self.timeout is None else TimeLimit(self.timeout)
        if limit is None:
            value = yield Call(self.function, args, kwargs, blocks=self.blocks)
        else:
            call = functools.partial(self.function, *args, **kwargs)
            value = (
                yield Call(limit.wait, (call,)) if self._awaits else Call(limit.call, (call,), blocks=True)
            )
        if isinstance(value, AsyncGeneratorType):
            items = value if limit is None else limit.items(value)
            return (yield from _last(Stream(items), progress))
        if isinstance(value, GeneratorType):
            value = _whole(value)
            following = functools.partial(next, value, OVER)
            waits = Stream(value) if limit is None else Call(limit.call, (following,), blocks=True)
            return (yield from _last(waits, progress))
        return value


def _whole(generator: Generator[Any, None, Any]) -> Generator[Any, None, None]:
    """The values of a generator, and then what it returns."""
    if (returned := (yield from generator)) is not None:
        yield returned


def _last(following: Call | Stream, progress: Progress) -> Steps[Any]:
    """The last of the items that come one by one; every one goes to `progress`."""
    last = None
    while (item := (yield following)) is not OVER:
        yield from progress(item)
        last = item
    return last
