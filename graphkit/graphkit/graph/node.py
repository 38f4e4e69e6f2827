"""What a user gave as a node or an edge function, as the engine calls it."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, get_args, get_origin

from graphkit.annotations import hints_of_function, meant
from graphkit.constants import LONGEST_NAME, RESERVED
from graphkit.engine.program import Callee
from graphkit.errors import InvalidGraphError
from graphkit.graph.parameters import Arguments, arguments_of, arguments_of_call, arguments_of_handler
from graphkit.types import Command
from graphkit_checkpoint.admission import is_text

FORBIDDEN = ("|", ":", "\0")


def name_of(action: Any) -> str:
    """The name a node gets from its function or object. Raises `InvalidGraphError` if it has none."""
    name = getattr(action, "__name__", None) or getattr(action, "name", None)
    if not isinstance(name, str):
        inner = getattr(action, "func", None)  # functools.partial
        name = getattr(inner, "__name__", None) or type(action).__name__
    return name


def node_of(action: Any) -> Any:
    """What is called where this was added: an object that is no function may say so, with `as_node()`."""
    make = None if inspect.isroutine(action) or isinstance(action, type) else getattr(action, "as_node", None)
    return make() if callable(make) else action


def check_name(name: Any) -> str:
    """Raises `InvalidGraphError` for a name that a node cannot have."""
    if not isinstance(name, str) or not name:
        raise InvalidGraphError(f"a node's name must be a non-empty string, not {name!r}")
    if name in RESERVED:
        raise InvalidGraphError(f"the node name {name!r} is reserved; choose another one")
    if not is_text(name) or len(name) > LONGEST_NAME:
        raise InvalidGraphError(
            f"the node name {name!r:.80} has NUL or a lone surrogate, or more than {LONGEST_NAME} characters, which "
            f"databases refuse"
        )
    for mark in FORBIDDEN:
        if mark in name:
            raise InvalidGraphError(f"the node name {name!r} contains {mark!r}, which separates namespaces")
    return name


def check_end(key: Any) -> str:
    """Raises `InvalidGraphError` for an end of an edge that is no name."""
    if not isinstance(key, str):
        remedy = f"; name the node, {name_of(key)!r} if it was added without a name" if callable(key) else ""
        raise InvalidGraphError(f"an edge leads between names of nodes, not {key!r:.100}{remedy}")
    return key


def callee_of(action: Any, name: str, given: int = 1) -> Callee:
    """A node or an edge function: called with the state, and with what is injected. With `given=0` the caller
    decides about the arguments."""
    return _callee(action, name, arguments_of if given else arguments_of_call)


def handler_of(action: Any, name: str) -> Callee:
    """An error handler: called with the state and a `NodeError`, and with what is injected."""
    return _callee(action, name, arguments_of_handler)


def _callee(action: Any, name: str, read: Callable[[Any], Arguments]) -> Callee:
    call, acall = callable_forms(action)
    if not callable(call or acall):
        remedy = (
            "compile() it first"
            if hasattr(action, "compile")
            else "give a function or an object with invoke()"
        )
        raise InvalidGraphError(f"{action!r:.100} cannot be called; {remedy}")
    arguments = read(call or acall)
    return Callee(
        name,
        arguments.adapted(call) if call is not None else None,
        arguments.adapted(acall) if acall is not None else None,
        tuple(dict.fromkeys(arguments.injected.values())),
    )


def callable_forms(function: Any) -> tuple[Callable[..., Any] | None, Callable[..., Any] | None]:
    """The blocking and the async form of what a user gave as a function; objects bring `invoke`/`ainvoke`."""
    if hasattr(function, "invoke") and not inspect.isroutine(function):
        return function.invoke, getattr(function, "ainvoke", None)
    target = function
    while hasattr(target, "func") and not inspect.isroutine(target):
        target = target.func
    is_async = inspect.iscoroutinefunction(target) or inspect.iscoroutinefunction(
        getattr(target, "__call__", None)  # noqa: B004
    )
    return (None, function) if is_async else (function, None)


def input_annotation(action: Any, hints: Mapping[str, Any]) -> Any:
    """The annotation of the first parameter, or None. `hints` are those of the function."""
    if not hints:
        return None
    try:
        first = next(iter(inspect.signature(action).parameters), None)
    except (TypeError, ValueError):
        return None
    return hints.get(first) if first is not None else None


def declared_targets(hints: Mapping[str, Any]) -> tuple[str, ...]:
    """The nodes named in a return annotation `Command[Literal[...]]` or `Literal[...]`."""
    return tuple(_literals(hints.get("return")))


def _literals(annotation: Any, around: tuple[Any, ...] = ()) -> Iterator[str]:
    annotation = meant(annotation)
    if annotation in around:  # an alias may name itself
        return
    origin = get_origin(annotation)
    if origin is Literal:
        yield from (value for value in get_args(annotation) if isinstance(value, str))
    elif origin is not None:
        for argument in get_args(annotation):
            yield from _literals(argument, (*around, annotation))


def may_go_anywhere(action: Any) -> bool:
    """Whether a node's code may return a `Command` or `Send` that nobody declared.

    Decided by the names its code mentions, so it can be wrong for code that hides them; it only decides
    between an error and silence about joins that seem never to be complete.
    """
    hints = hints_of_function(action)
    annotation = hints.get("return")
    if annotation is Command or get_origin(annotation) is Command:
        return not declared_targets(hints)
    function = inspect.unwrap(getattr(action, "func", action))
    code = getattr(function, "__code__", None)
    return code is None or bool({"Command", "Send"} & set(_names(code)))


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    yield from code.co_freevars
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)
