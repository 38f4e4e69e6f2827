"""Where the names of LangGraph and Strands are here: under the same path, but for a few.

Our own modules are read, not imported: what a door opens to may need an extra.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

ANCHORS: Final = ("langgraph", "strands")
HERE: Final = "graphkit"

MOVED: Final = {
    "strands.interrupt": "graphkit",
    "strands.types.interrupt": "graphkit.types.interrupt",
    "strands.types.events": "graphkit.middleware",
    "strands.event_loop._retry": "graphkit.agent",
    "strands.experimental.hooks": "graphkit.hooks",
    "strands.experimental.hooks.multiagent": "graphkit.hooks",
}
"""Modules whose names are somewhere else here."""

RENAMED: Final = {
    "langgraph": {
        "CompiledStateGraph": ("graphkit.graph.state", "CompiledStateGraph"),
        "CompiledGraph": ("graphkit.compiled", "CompiledGraph"),
        "Pregel": ("graphkit.compiled", "CompiledGraph"),
        "Send": ("graphkit.types", "Send"),
    },
    "strands": {
        "BeforeModelInvocationEvent": ("graphkit.hooks", "BeforeModelCallEvent"),
        "AfterModelInvocationEvent": ("graphkit.hooks", "AfterModelCallEvent"),
        "BeforeToolInvocationEvent": ("graphkit.hooks", "BeforeToolCallEvent"),
        "AfterToolInvocationEvent": ("graphkit.hooks", "AfterToolCallEvent"),
        "DecoratedFunctionTool": ("graphkit.tools.decorator", "FunctionTool"),
    },
}
"""Names of the anchors that have another name here, wherever they stand there."""

_A_SAVER: Final = "a session is a saver and an id here: graphkit.session.SessionManager(saver, session_id)"
_NO_TRACES: Final = "graphkit makes no traces; result.metrics has usage and times"

LEFT_OUT: Final = {
    "strands.models": "Strands' model providers work here as they are: keep this import and Strands installed, or name "
    'the model "provider:model"',
    "strands_tools": "tools of Strands work here as they are",
    "strands.session": _A_SAVER,
    "strands.types.session": _A_SAVER,
    "strands.telemetry": _NO_TRACES,
    "strands.types.traces": _NO_TRACES,
    "strands.tools.loader": "no file is loaded because it is there: import the tools, and pass Agent(tools=...)",
}
"""Modules some of whose names are not here, and what there is instead."""


class Home(NamedTuple):
    """From where a name is imported here, and what it is called."""

    module: str
    name: str


def is_anchors(module: str) -> bool:
    """Whether a module belongs to LangGraph or Strands."""
    return module.partition(".")[0] in ANCHORS


def new_module(module: str) -> str | None:
    """The module of the same names here; None if there is none."""
    top, dot, rest = module.partition(".")
    if top not in ANCHORS:
        return None
    found = MOVED.get(module) or f"{HERE}{dot}{rest}"
    return found if _path(found) is not None else None


def new_home(module: str, name: str) -> Home | None:
    """Where this name of a module is here; None if it is not."""
    for found in (new_module(module), *_nearest(module)):
        if found is not None and (name in names_of(found) or _path(f"{found}.{name}") is not None):
            return Home(found, name)
    renamed = RENAMED.get(module.partition(".")[0], {}).get(name)
    return None if renamed is None else Home(*renamed)


def reason(module: str) -> str:
    """Why a name of this module has no home here."""
    for left_out, why in LEFT_OUT.items():
        if module == left_out or module.startswith(f"{left_out}."):
            return why
    return "there is nothing of this name in graphkit"


def _nearest(module: str) -> Iterator[str | None]:
    """The modules around this one, nearest first: `langgraph.graph.state` is `graphkit.graph` too. Not the package
    itself, in which the names of both stand side by side."""
    parts = module.split(".")
    for length in range(len(parts) - 1, 1, -1):
        yield new_module(".".join(parts[:length]))


@cache
def names_of(module: str) -> frozenset[str]:
    """The public names of one of our modules."""
    path = _path(module)
    if path is None:
        return frozenset()
    tree = ast.parse(path.read_text("utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return frozenset(ast.literal_eval(node.value))
    return frozenset(name for name in _bound(tree) if not name.startswith("_"))


def _bound(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


@cache
def _path(module: str) -> Path | None:
    """The source of one of our modules."""
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:  # one of the modules around it
        return None
    return None if spec is None or spec.origin is None else Path(spec.origin)
