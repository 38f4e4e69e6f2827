"""What the parameters of a user's function ask for, and how the function is called accordingly.

Values come by position: the state, for an error handler the error too. What a function may have of the run
besides is injected by keyword, for a parameter that has the name for it (`runtime`, `config`, `store`,
`writer`) or, under any name, the annotation (`Runtime`, `RunnableConfig`, `BaseStore`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_origin

from graphkit.annotations import choices, hints_of_function
from graphkit.errors import NodeError
from graphkit.runtime import INJECTED, Runtime
from graphkit.types import RunnableConfig
from graphkit_checkpoint.store.base import BaseStore

__all__ = ["Arguments", "arguments_of", "arguments_of_call", "arguments_of_handler"]

Parameter = inspect.Parameter
POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
BY_KEYWORD = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True)
class Arguments:
    """How a function is called: which of the values it takes by position, the first ones, and which by the name
    of a parameter; `injected` is what is injected into which parameter."""

    values: int
    positional: int
    named: Mapping[int, str]
    injected: Mapping[str, str]

    def adapted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, so that it takes all the values by position, and what is injected by its usual name."""
        usual = all(parameter == thing for parameter, thing in self.injected.items())
        if self.positional == self.values and usual:
            return function
        return functools.partial(_call, function, self.positional, self.named, self.injected)


def _call(
    function: Callable[..., Any],
    positional: int,
    named: Mapping[int, str],
    injected: Mapping[str, str],
    *values: Any,
    **things: Any,
) -> Any:
    by_name = {parameter: values[index] for index, parameter in named.items()}
    return function(
        *values[:positional], **by_name, **{parameter: things[thing] for parameter, thing in injected.items()}
    )


def arguments_of(function: Any) -> Arguments:
    """Of a node or an edge function: the first parameter is for the state."""
    parameters = _parameters(function)
    state = next((p for p in parameters if p.kind in POSITIONAL), None)
    return Arguments(1, 1, {}, _injected(function, [p for p in parameters if p is not state]))


def arguments_of_call(function: Any) -> Arguments:
    """Of a function that somebody calls: what has the name for it is injected, and all else is the caller's."""
    return Arguments(0, 0, {}, {p.name: p.name for p in _parameters(function) if _is_usual(p)})


def arguments_of_handler(function: Any) -> Arguments:
    """Of an error handler: a parameter for the state and one for the `NodeError`, either of which may be missing.

    The error's is annotated so or named `error`, else it is the second one; the state's is the first other one.
    """
    parameters = _parameters(function)
    positional = [p for p in parameters if p.kind in POSITIONAL]
    single = [p for p in parameters if p.kind in POSITIONAL or p.kind is Parameter.KEYWORD_ONLY]
    error = _error_among(function, single)
    state = next((p for p in positional if p is not error), None)
    injected = _injected(function, [p for p in single if p is not state and p is not error])
    if error is None and any(p.kind is Parameter.VAR_POSITIONAL for p in parameters):
        return Arguments(2, 2, {}, injected)
    if error is None:
        error = next((p for p in single if p is not state and p.name not in injected), None)
    return _placed(positional, (state, error), injected)


def _placed(
    positional: Sequence[Parameter], wanted: Sequence[Parameter | None], injected: Mapping[str, str]
) -> Arguments:
    """As many of the wanted parameters by position as stand in their places, the others by name."""
    fitting = 0
    while fitting < min(len(wanted), len(positional)) and wanted[fitting] is positional[fitting]:
        fitting += 1
    named = {index: p.name for index, p in enumerate(wanted) if p is not None and index >= fitting}
    return Arguments(len(wanted), fitting, named, injected)


def _parameters(function: Any) -> list[Parameter]:
    """The parameters that have no argument yet; a function that does not say takes anything by position."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return [Parameter("values", Parameter.VAR_POSITIONAL)]
    bound = function.keywords if isinstance(function, functools.partial) else ()
    return [p for p in parameters if p.name not in bound]


def _injected(function: Any, parameters: Sequence[Parameter]) -> dict[str, str]:
    free = [p for p in parameters if p.kind in BY_KEYWORD]
    annotations = hints_of_function(function) if free else {}
    things = {p.name: p.name if _is_usual(p) else _thing(annotations.get(p.name)) for p in free}
    return {parameter: thing for parameter, thing in things.items() if thing is not None}


def _is_usual(parameter: Parameter) -> bool:
    return parameter.name in INJECTED and parameter.kind in BY_KEYWORD


def _thing(annotation: Any) -> str | None:
    """What is injected into a parameter of this annotation."""
    for choice in choices(annotation):
        kind = get_origin(choice) or choice
        if kind is RunnableConfig:
            return "config"
        if kind is Runtime:
            return "runtime"
        if isinstance(kind, type) and issubclass(kind, BaseStore):
            return "store"
    return None


def _error_among(function: Any, parameters: Sequence[Parameter]) -> Parameter | None:
    annotations = hints_of_function(function)
    annotated = (p for p in parameters if NodeError in choices(annotations.get(p.name)))
    named = (p for p in parameters if p.name == "error")
    return next(iter((*annotated, *named)), None)
