"""Which graph a thread was left by, and whether another version of it can go on.

The shape of the graph (kind, reducer and type of each state key) is stored with the thread whenever it differs
from what is stored. A run that continues compares. What it can prove to be harmless passes: nodes in another
order, nodes and keys added, nodes removed that nothing waits for, keys removed that hold no value, another type
that the stored value fits as well. Everything else would silently drop or reinterpret something that a user said:
`GraphVersionError`, unless the graph was compiled to accept it.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args, get_origin
from zlib import crc32

from graphkit.channels import MISSING, BaseChannel, LastValue
from graphkit.constants import GRAPH, START
from graphkit.engine.program import Program
from graphkit.engine.state import Changes, State, join_key
from graphkit.errors import GraphVersionError
from graphkit_checkpoint.records import OUTPUT, Saved

Shape = Mapping[str, list[Any]]
Migrate = Callable[[dict[str, Any], list[str]], Mapping[str, Any]]
OnVersionChange = Literal["raise", "accept"] | Migrate


def shape_of(program: Program) -> Shape:
    """What a thread has to remember of a graph, in names that do not depend on where its code is.

    Nodes and joins are not in it: what of them matters to a thread is in its checkpoint.
    """
    if program.described is None:
        program.described = {key: _field(channel) for key, channel in sorted(program.channels.items())}
    return program.described


def settle(program: Program, saved: Saved | None, state: State, tasks: Sequence[str] | None) -> Changes:
    """What has to be stored of the graph's shape before a run goes on at a checkpoint.

    `tasks` are the nodes that would run there, None for a new turn that only keeps the values. Raises
    `GraphVersionError`; with a function given for it, the state is replaced by what that makes of the values.
    """
    shape = shape_of(program)
    before: Shape | None = saved.values.get(GRAPH) if saved else None
    changes = Changes()
    problems: list[str] = []
    if saved is not None and tasks is not None:
        problems += _plan_problems(program, saved, tasks)
    if before != shape:
        changes.changed[GRAPH] = shape
        if saved is not None:
            problems += _state_problems(program, before or {}, shape, saved, tasks)
    if saved is None or not problems or program.on_version_change == "accept":
        return changes
    if callable(program.on_version_change):
        return _migrated(program, program.on_version_change, saved, state, problems, changes)
    raise GraphVersionError(
        f"the thread was left by another version of graph {program.name!r}: {'; '.join(problems)}. Run it with the "
        f"version that left it, or compile with on_version_change='accept', or with a function that migrates the values"
    )


def _migrated(
    program: Program, migrate: Migrate, saved: Saved, state: State, problems: list[str], changes: Changes
) -> Changes:
    stored = {key: value for key, value in saved.values.items() if key != GRAPH}
    values = dict(migrate(stored, problems))
    unknown = sorted(set(values) - set(program.channels))
    if unknown:
        raise GraphVersionError(
            f"the migrated values have {', '.join(map(repr, unknown))}, which graph {program.name!r} does not have "
            f"either; it has {', '.join(program.channels)}"
        )
    state.replace(values)
    changes.changed.update(values)
    changes.cleared = set(saved.values) - set(values) - {GRAPH}
    return changes


def _state_problems(
    program: Program, before: Shape, shape: Shape, saved: Saved, tasks: Sequence[str] | None
) -> Iterator[str]:
    keys = set(saved.values) - {GRAPH}
    if tasks is not None:
        for record in saved.pending:
            if record.kind == OUTPUT and "call" not in record.value:
                keys.update(key for key, _ in record.value["writes"])
    for key in sorted(keys):
        yield from _channel_problems(program, before, shape, key, saved.values.get(key, MISSING))


def _plan_problems(program: Program, saved: Saved, tasks: Sequence[str]) -> Iterator[str]:
    control = saved.checkpoint.control
    for name in dict.fromkeys((*tasks, *control.get("deferred", ()))):
        if name != START and name not in program.nodes:
            yield f"node {name!r}, which would run next, is gone (there are {', '.join(program.nodes)})"
    waiting = control.get("joins", {})
    joins = set(map(join_key, program.joins)) if waiting else set()
    for key in waiting:
        if key not in joins:
            sources, _, target = key.rpartition(":")
            yield f"the join of {sources.replace('+', ', ')} into {target!r}, half complete, is gone"


def _channel_problems(program: Program, before: Shape, shape: Shape, key: str, value: Any) -> Iterator[str]:
    if key not in program.channels:
        added = sorted(set(shape).difference(before)) if before else []
        new = f" (new: {', '.join(map(repr, added))})" if added else ""
        yield f"state key {key!r} is gone and the thread holds a value of it{new}"
        return
    if key not in before or before[key] == shape[key]:
        return
    old, new_one = _Field(*before[key]), _Field(*shape[key])
    if old.kind != new_one.kind:
        yield f"state key {key!r} was a {old.kind} and is a {new_one.kind}"
    elif _reducer_changed(old, new_one):
        yield f"the reducer of state key {key!r} was {old.reducer} and is {new_one.reducer}, or another function"
    elif old.type != new_one.type and value is not MISSING and not _fits(value, program.channels[key]):
        yield f"state key {key!r} was a {old.type} and is a {new_one.type}, which the stored value is not"


class _Field(NamedTuple):
    """One state key. `code` is of a reducer without a name, as the Python of this version compiles it."""

    type: str
    kind: str = LastValue.__name__
    reducer: str = ""
    code: int = 0
    python: str = ""


def _field(channel: BaseChannel[Any]) -> list[Any]:
    field = _Field(_type_text(channel.typ), type(channel).__name__, *_reducer(channel.operator))
    defaults = _Field._field_defaults
    kept = len(field)
    while kept > 1 and field[kept - 1] == defaults[_Field._fields[kept - 1]]:
        kept -= 1
    return list(field[:kept])


def _reducer(operator: Any) -> tuple[str, int, str]:
    """A reducer by its name; one without a name of its own by its code as well."""
    if operator is None:
        return "", 0, ""
    if isinstance(operator, functools.partial):
        name, digest, python = _reducer(operator.func)
        bound = [*operator.args, *(part for item in sorted(operator.keywords.items()) for part in item)]
        return f"{name}({', '.join(map(_plain_text, bound))})", digest, python
    name = getattr(operator, "__name__", type(operator).__name__)
    code = getattr(operator, "__code__", None)
    if name != "<lambda>" or code is None:
        return name, 0, ""
    digest = crc32(code.co_code + repr((code.co_names, _constants(code))).encode())
    return name, digest, f"{sys.version_info[0]}.{sys.version_info[1]}"


def _plain_text(value: Any) -> str:
    """The same text in every process."""
    return repr(value) if isinstance(value, (str, int, float, bool, type(None))) else type(value).__name__


def _constants(code: types.CodeType) -> list[str]:
    return [each.co_code.hex() if isinstance(each, types.CodeType) else repr(each) for each in code.co_consts]


def _reducer_changed(old: _Field, new: _Field) -> bool:
    return old.reducer != new.reducer or (old.python == new.python and old.code != new.code)


def _type_text(typ: Any) -> str:
    """An annotation by the names of its types, whatever modules they are in."""
    arguments = get_args(typ)
    origin = get_origin(typ)
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, arguments))}]"
    if origin is types.UnionType or getattr(origin, "__name__", "") == "Union":
        return " | ".join(sorted(map(_type_text, arguments)))
    if origin is not None:
        return f"{_type_text(origin)}[{', '.join(map(_type_text, arguments))}]"
    if isinstance(typ, list):
        return f"[{', '.join(map(_type_text, typ))}]"
    return str(getattr(typ, "__name__", None) or str(typ).rpartition(".")[2])


def _fits(value: Any, channel: BaseChannel[Any]) -> bool:
    """Whether a stored value is one of the channel's type, as far as pydantic can tell."""
    from pydantic import ConfigDict, TypeAdapter

    try:
        adapter: TypeAdapter[Any]
        try:
            adapter = TypeAdapter(channel.typ, config=ConfigDict(arbitrary_types_allowed=True))
        except Exception:
            adapter = TypeAdapter(channel.typ)  # a model or dataclass brings its own
        adapter.validate_python(value, strict=True)
    except Exception:
        return False
    return True
