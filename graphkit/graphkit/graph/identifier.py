"""What tells a user's function from every other one, in every process: whose results are whose in a cache.

A function that its module has under its own name is known by that name, so that results outlive a new
version of it, as in LangGraph. Any other one (a lambda, a local function, one of the program that was
started, one that was replaced or decorated since) is known by its name and a digest of what it consists of:
its code, its defaults, what it encloses (but for what it changes of that itself, such as a counter), the fields of
the object it belongs to. What it reads from its module when it runs is not looked at.

Something enclosed that cannot be stored, such as a connection, is known only by being that very object: the
results of a function around it are found again in this process alone.
"""

from __future__ import annotations

import copyreg
import functools
import inspect
import os
import sys
import weakref
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import blake2b
from types import CodeType, ModuleType
from typing import Any

from graphkit.compiled import CompiledGraph
from graphkit.engine.program import NodeSpec, Program
from graphkit.graph.counters import changed_by, is_changed
from graphkit_checkpoint.errors import GraphkitError
from graphkit_checkpoint.serde import fingerprint

__all__ = ["identifier"]

NEW: Any = vars(copyreg)["__newobj__"]
"""How an object is copied whose class has nothing to say about it."""


def identifier(function: Any) -> str:
    """`module:name` of a function, method, callable object or compiled graph, with a digest if that is not enough."""
    name = _name(function)
    return name if _is_known_by_name(function) else f"{name}:{_digest(_parts(function, ()))}"


def _name(function: Any) -> str:
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{getattr(named, '__module__', None)}:{named.__qualname__}"


def _is_known_by_name(function: Any) -> bool:
    module = getattr(function, "__module__", None)
    if module == "__main__" or not hasattr(function, "__qualname__"):
        return False
    found: Any = sys.modules.get(module) if isinstance(module, str) else None
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is function


def _digest(parts: Iterable[str]) -> str:
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(f"{len(part)}:{part}".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


Around = tuple[Any, ...]
"""What is being taken apart: something that contains itself is not taken apart again inside."""


def _parts(thing: Any, around: Around) -> Iterator[str]:
    """What a function or object consists of, as texts."""
    inside = (*around, thing)
    if any(thing is outer for outer in around):
        yield "itself"
    elif isinstance(thing, functools.partial):
        yield from _each((thing.func, *thing.args, *thing.keywords, *thing.keywords.values()), inside)
    elif inspect.ismethod(thing):
        yield from _each((thing.__func__, thing.__self__), inside)
    elif inspect.isfunction(thing):
        yield from _code(thing.__code__)
        yield from _each(thing.__defaults__ or (), inside)
        yield from _each((thing.__kwdefaults__ or {}).values(), inside)
        yield from _each(_enclosed(thing), inside)
    elif isinstance(thing, CompiledGraph):
        yield from _graph(thing.program, inside)
    elif isinstance(thing, ModuleType):
        yield thing.__name__
    elif isinstance(thing, type):
        yield from _each(thing.__bases__, inside)
        yield from _each(_own(thing), inside)
    elif type(thing) in (list, tuple):
        yield from _each(thing, inside)
    elif type(thing) is dict:
        yield from _each((*thing, *thing.values()), inside)
    else:
        if not _is_known_by_name(type(thing)):
            yield from _parts(type(thing), inside)
        yield _state(thing)


def _each(things: Iterable[Any], around: Around) -> Iterator[str]:
    for thing in things:
        yield from _value(thing, around)


def _value(value: Any, around: Around) -> Iterator[str]:
    """What tells a value from another one: its name, its content, or that it is this object."""
    if _is_known_by_name(value):
        yield _name(value)
        return
    try:
        yield fingerprint(value)
    except GraphkitError:
        yield _name(value)
        yield from _parts(value, around)


def _enclosed(function: Any) -> Iterator[Any]:
    code, closure = function.__code__, function.__closure__ or ()
    changes = changed_by(code) if closure else frozenset()
    for name, cell in zip(code.co_freevars, closure, strict=True):
        try:
            value = cell.cell_contents
        except ValueError:  # nothing has been put there yet
            value = None
        yield None if is_changed(name, value, changes) else value


def _own(class_: type[Any]) -> Iterator[Any]:
    """The functions of a class, and what else it says itself."""
    for name, value in vars(class_).items():
        function = getattr(value, "__func__", value)  # of a static or class method
        if inspect.isfunction(function) or not (name.startswith("__") and name.endswith("__")):
            yield function


def _state(thing: Any) -> str:
    """The state of an object as it would be copied, if all of it can be stored; else that it is this object."""
    try:
        make, arguments, *state = thing.__reduce_ex__(2)
        if make is NEW and arguments == (type(thing),):
            return fingerprint([list(part) if isinstance(part, Iterator) else part for part in state])
    except Exception:  # whatever its own methods raise
        pass
    return _token(thing)


def _code(code: CodeType) -> Iterator[str]:
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    names = (code.co_names, code.co_varnames, code.co_cellvars, code.co_freevars)
    yield repr((code.co_code, code.co_exceptiontable, counts, names))
    yield from (text for constant in code.co_consts for text in _constant(constant))


def _constant(constant: Any) -> Iterator[str]:
    if isinstance(constant, CodeType):
        yield from _code(constant)
    elif isinstance(constant, frozenset):  # its order is another one in each process
        yield from sorted(map(repr, constant))
    elif isinstance(constant, tuple):
        yield from (text for item in constant for text in _constant(item))
    else:
        yield f"{type(constant).__name__} {constant!r}"


def _graph(program: Program, around: Around) -> Iterator[str]:
    yield repr((program.name, sorted(program.input_keys), program.output.keys))
    yield from (repr((sorted(join.sources), join.target)) for join in program.joins)
    for name, channel in program.channels.items():
        yield f"{name} {_name(type(channel))}"
        yield from _value(channel.operator, around)
    for node in (program.entry, *program.nodes.values()):
        yield from _node(node, around)


def _node(node: NodeSpec, around: Around) -> Iterator[str]:
    yield repr((node.name, node.successors, node.joins, node.defer, node.shape.keys))
    for callee in (node.callee, node.handler, *(branch.callee for branch in node.branches)):
        yield from _value(callee and (callee.call or callee.acall), around)
    yield from (repr(branch.path_map) for branch in node.branches)


# --- objects ------------------------------------------------------------------------------------------

_tokens: dict[int, tuple[weakref.ref[Any], str]] = {}


def _token(thing: Any) -> str:
    """A text of this object's own: the same one as long as it lives, if that can be observed."""
    known = _tokens.get(id(thing))
    if known is not None and known[0]() is thing:
        return known[1]
    token = os.urandom(16).hex()
    with suppress(TypeError):
        _tokens[id(thing)] = weakref.ref(thing, functools.partial(_forget, id(thing), token)), token
    return token


def _forget(key: int, token: str, gone: weakref.ref[Any]) -> None:
    if key in _tokens and _tokens[key][1] == token:
        del _tokens[key]
