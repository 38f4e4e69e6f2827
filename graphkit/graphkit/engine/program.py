"""A compiled graph as the engine sees it: nodes with their ways out, channels, and the shapes of inputs."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from graphkit.channels import MISSING, BaseChannel
from graphkit.constants import START
from graphkit.errors import GraphVersionError
from graphkit.types import CachePolicy, Interrupt, RetryPolicy, TimeoutPolicy

UNNAMED = "graph"
"""The name of a graph that was compiled without one."""
ROOT = "__root__"
"""The one channel of a graph whose state is a single value and no mapping."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The names a graph knows; shared by all of its runs. `warned` holds what was warned of already."""

    channels: frozenset[str]
    nodes: frozenset[str]
    warned: set[tuple[str, str]] = field(default_factory=set, compare=False)

    def __reduce__(self) -> Any:
        return Vocabulary, (self.channels, self.nodes)


@dataclass(frozen=True, slots=True)
class Shape:
    """How state values become the object that a function receives: `of` picks them, `instance` makes it.

    `keys` are the channels it may see (None: all), `build` makes an instance of the schema from a dict.
    `managed` adds values computed from the number of supersteps that are left.
    """

    keys: tuple[str, ...] | None
    build: Callable[[dict[str, Any]], Any] | None = None
    managed: Mapping[str, Callable[[int], Any]] = field(default_factory=dict)
    is_root: bool = False
    is_complete: bool = field(init=False)
    """Whether a view is what the function sees, as it is."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_complete", self.keys is None and not self.managed and not self.is_root)

    def of(self, view: Mapping[str, Any], steps_left: int) -> Any:
        if self.is_root:
            assert self.keys is not None
            return view.get(self.keys[0])
        values = dict(view) if self.keys is None else {key: view[key] for key in self.keys if key in view}
        if self.managed:
            for key, compute in self.managed.items():
                values[key] = compute(steps_left)
        return values

    def instance(self, values: Any) -> Any:
        """What the function receives: an instance of the schema; a `Send`'s own object stays as it is."""
        return self.build(values) if self.build is not None and isinstance(values, dict) else values


@dataclass(frozen=True, slots=True)
class Callee:
    """A user's function: its blocking form, its async form (one may be None), what is injected by name. One that is
    `brief` only chooses or passes on: it is called on the event loop, whose next turn it does not delay."""

    name: str
    call: Callable[..., Any] | None
    acall: Callable[..., Any] | None
    inject: tuple[str, ...] = ()
    brief: bool = False

    @property
    def is_async(self) -> bool:
        return self.call is None


@dataclass(frozen=True, slots=True)
class Branch:
    """A conditional edge: the function, how its result names targets, and what it sees."""

    callee: Callee
    shape: Shape
    path_map: Mapping[Any, str] | None


@dataclass(frozen=True, slots=True)
class Caching:
    """A node's cache policy, and the namespace of its results: no other function has it."""

    namespace: tuple[str, ...]
    policy: CachePolicy


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class NodeSpec:
    """One node. `successors` run after it, `joins` (indexes) wait for it, `branches` choose. `subgraph` is the
    graph that it is, if it is one. `result` makes writes of what it returns, where that is no update:
    the first is all that is shown of it. A node that `coordinates` does little but call tasks and wait for them.

    One that `sees_state` is given a `Seen` by a `Send`. The `Send`s to one that is `in_order` run one after the
    other, and none after one that has asked or failed. Tasks of nodes that are `queued` begin one after the other,
    each when the one before has said that it has (`Attempt.begun`), or has ended; then they run side by side. The
    tasks of one that is not `shown` are part of how another node works: streams do not tell of them."""

    name: str
    callee: Callee
    shape: Shape
    successors: tuple[str, ...] = ()
    joins: tuple[int, ...] = ()
    branches: tuple[Branch, ...] = ()
    retry: tuple[RetryPolicy, ...] = ()
    cache: Caching | None = None
    timeout: TimeoutPolicy | None = None
    handler: Callee | None = None
    handler_retry: tuple[RetryPolicy, ...] = ()
    """What the handler is tried again for."""
    handles: type[Exception] = Exception
    """What the handler is for; after any other error the node may run again."""
    defer: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict)
    subgraph: Program | None = None
    keeps: bool | None = None
    """What the subgraph keeps: True for its state, False for nothing, None for the state of one task."""
    result: Callable[[Any], list[tuple[str, Any]]] | None = None
    coordinates: bool = False
    sees_state: bool = False
    in_order: bool = False
    queued: bool = False
    shown: bool = True


class Seen(NamedTuple):
    """What a node that sees the state is given by a `Send`: the state as a node without one gets it, and `arg`."""

    view: Any
    arg: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """Why a run is about to end: it waits for answers, or it raises the `error` of a task (or both). `questions` are
    all that are open, `nodes` the names of the tasks that have not finished, each once, `view` is the state with what
    those have written that have."""

    questions: tuple[Interrupt, ...] = ()
    error: BaseException | None = None
    nodes: tuple[str, ...] = ()
    view: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Join:
    """`target` runs when every one of `sources` has run since it ran last."""

    sources: frozenset[str]
    target: str


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Program:
    """Everything the engine knows of a graph. Read only: shared by all runs.

    `takes` and `gives` name the channels that are the whole input and the whole output, where those are no
    mappings of channel names.

    `opening` and `closing` are run at the edges of a run (see `graphkit.engine.attendance`) that is `attended` by
    them: a set of "opening" and "closing". What is not in it is not begun, but gone on with if it waits for an answer.

    With `keeps_finished` a new input is applied after what the finished tasks of an unfinished superstep have
    written, which else is dropped. `admits` is called with the open questions that a new input would close; what
    it raises, the run raises before anything is stored. One that is `called_once` by a task is known again by its name
    alone, whatever it is given.
    """

    name: str
    channels: Mapping[str, BaseChannel[Any]]
    nodes: Mapping[str, NodeSpec]
    entry: NodeSpec
    joins: Sequence[Join]
    input_keys: frozenset[str]
    output: Shape
    words: Vocabulary
    deferred: frozenset[str] = frozenset()
    unchecked_matching: bool = False
    on_version_change: Any = "raise"
    described: Mapping[str, Any] | None = None
    takes: str | None = None
    gives: str | None = None
    specs: Specs = field(init=False)
    opening: NodeSpec | None = None
    closing: NodeSpec | None = None
    attended: frozenset[str] = frozenset()
    keeps_finished: bool = False
    admits: Callable[[Sequence[Interrupt]], None] | None = None
    called_once: bool = False
    in_order: frozenset[str] = field(init=False)
    """The nodes whose `Send`s run one after the other."""
    filled: frozenset[str] = field(init=False)
    """The channels that have a value before anything was written to them."""
    finishing: tuple[str, ...] = field(init=False)
    """The channels that do something when nothing is left to run."""

    def __post_init__(self) -> None:
        if self.is_root:
            self.takes = self.gives = ROOT
        self.in_order = frozenset(name for name, node in self.nodes.items() if node.in_order)
        channels = self.channels.items()
        self.filled = frozenset(
            key for key, channel in channels if channel.from_checkpoint(MISSING).is_available()
        )
        self.finishing = tuple(
            key for key, channel in channels if type(channel).finish is not BaseChannel.finish
        )
        edges = {"opening": self.opening, "closing": self.closing}
        for edge, spec in edges.items():
            if edge in self.attended and spec is None:
                raise ValueError(f"graph {self.name!r} is attended by an {edge} that it does not have")
            if spec is not None and (spec.name in self.nodes or not spec.sees_state):
                raise ValueError(f"the {edge} {spec.name!r} needs a name of its own and has to see the state")
        named = {spec.name: spec for spec in edges.values() if spec is not None}
        self.specs = Specs({**self.nodes, **named, self.entry.name: self.entry})
        self.specs.graph = self.name
        self.entry.shown = False  # it is no node

    @property
    def called(self) -> str:
        """What tells this graph from others that a node calls: its name, or its nodes if it was not given one."""
        return self.name if self.name != UNNAMED else ",".join(sorted(self.nodes))

    @property
    def is_root(self) -> bool:
        return ROOT in self.channels


class Specs(dict[str, NodeSpec]):
    """What tasks run, by name: nodes, those at the edges, and the entry for the task that takes in the input. Raises
    `GraphVersionError` for a name that the graph does not have."""

    graph = UNNAMED

    def __missing__(self, name: str) -> NodeSpec:
        raise GraphVersionError(
            f"the thread is to go on at node {name!r}, which graph {self.graph!r} does not have (it has "
            f"{', '.join(spec for spec in self if spec != START)}); run it with the version of the graph that left it "
            f"there, or choose where to go on: update_state(config, None, as_node=...)"
        )


def cache_namespaces(program: Program, names: Container[str]) -> Iterator[tuple[str, ...]]:
    """Where the results of the nodes of these names are cached, with all those of the graphs that they are."""
    for node in program.nodes.values():
        if node.name in names:
            if node.cache is not None:
                yield node.cache.namespace
            if node.subgraph is not None:
                yield from cache_namespaces(node.subgraph, node.subgraph.nodes)
