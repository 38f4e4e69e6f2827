"""Programs made by hand, as what is built from graphs makes them: nodes of either colour over a few channels."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graphkit.channels import BaseChannel, BinaryOperatorAggregate, LastValue
from graphkit.compiled import CompiledGraph
from graphkit.constants import START
from graphkit.engine.program import Callee, NodeSpec, Program, Shape, Vocabulary
from graphkit.frame import Frame, running
from tests.conftest import Runner

Function = Callable[[Any], Any]


def channels() -> dict[str, BaseChannel[Any]]:
    return {
        "log": BinaryOperatorAggregate(list, operator.add, "log"),
        "last": LastValue(str, "last"),
        "notes": BinaryOperatorAggregate(dict, operator.or_, "notes"),
    }


def spec(runner: Runner, name: str, function: Function, **options: Any) -> NodeSpec:
    """A node of the runner's colour."""

    async def coroutine(given: Any) -> Any:
        return function(given)

    callee = Callee(name, function, None) if runner.colour == "sync" else Callee(name, None, coroutine)
    return NodeSpec(name=name, callee=callee, shape=Shape(None), **options)


def graph(
    runner: Runner,
    saver: Any,
    nodes: Mapping[str, Function],
    *,
    first: Sequence[str] | None = None,
    after: Mapping[str, Sequence[str]] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    **more: Any,
) -> CompiledGraph:
    """`nodes` start side by side unless `first` says which; `after` are the edges; `opening` and `closing` are
    functions, and attend every run; `more` goes to the program."""
    specs = {
        name: spec(
            runner,
            name,
            function,
            successors=tuple((after or {}).get(name, ())),
            **(options or {}).get(name, {}),
        )
        for name, function in nodes.items()
    }
    for edge in ("opening", "closing"):
        if more.get(edge) is not None:
            more[edge] = spec(runner, edge, more[edge], sees_state=True)
            more["attended"] = more.get("attended", frozenset()) | {edge}
    held = channels()
    entry = NodeSpec(
        name=START,
        callee=Callee(START, lambda given: given, None),
        shape=Shape(None),
        successors=tuple(specs if first is None else first),
    )
    program = Program(
        name="made",
        channels=held,
        nodes=specs,
        entry=entry,
        joins=[],
        input_keys=frozenset(held),
        output=Shape(None),
        words=Vocabulary(frozenset(held), frozenset(specs)),
        **more,
    )
    return CompiledGraph(program, checkpointer=saver, recursion_limit=25)


def here() -> Frame:
    """The frame of the running node."""
    return running("here()")


def ask(question: Any, name: str | None = None, **options: Any) -> Any:
    return here().ask(question, name, None, **options)
