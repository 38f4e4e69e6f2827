"""`StateGraph`: describe a graph node by node and edge by edge, then compile it."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, Self

from graphkit.annotations import hints_of_function
from graphkit.channels import BaseChannel, LastValue
from graphkit.compiled import CompiledGraph
from graphkit.constants import END, START
from graphkit.door import CONFLICT_TIMEOUT, OnConflict, check_nodes
from graphkit.engine.program import (
    ROOT,
    UNNAMED,
    Branch,
    Caching,
    Callee,
    Join,
    NodeSpec,
    Program,
    Shape,
    Vocabulary,
)
from graphkit.engine.request import DEFAULT_RECURSION_LIMIT
from graphkit.engine.versions import OnVersionChange
from graphkit.errors import InvalidGraphError
from graphkit.graph.identifier import identifier
from graphkit.graph.node import (
    callee_of,
    check_end,
    check_name,
    declared_targets,
    handler_of,
    input_annotation,
    may_go_anywhere,
    name_of,
    node_of,
)
from graphkit.graph.schema import fields_of, hints_of, shape_of
from graphkit.graph.structure import BranchDescription, GraphDescription, check_structure
from graphkit.graph.subgraph import subgraph_callee
from graphkit.type_variables import ContextT, Defaulting, InputT, OutputT, StateT
from graphkit.types import CachePolicy, RetryPolicy, TimeoutPolicy
from graphkit_checkpoint.base import BaseCheckpointSaver
from graphkit_checkpoint.cache.base import BaseCache
from graphkit_checkpoint.serde import register_annotations

__all__ = ["CompiledStateGraph", "StateGraph"]

if TYPE_CHECKING:
    from concurrent.futures import Executor

CompiledStateGraph = CompiledGraph
"""What `StateGraph.compile` makes, by the name that annotations of LangGraph's users have."""

Retry = RetryPolicy | Sequence[RetryPolicy]
Timeout = float | timedelta | TimeoutPolicy
PathMap = Mapping[Hashable, str] | Sequence[str]


@dataclasses.dataclass(slots=True, kw_only=True, eq=False, repr=False)
class _Node:
    """A node as it was added. `steering` are its functions, unless `destinations` were given for their commands."""

    action: Any
    callee: Callee
    input_schema: Any
    destinations: Mapping[str, str | None]
    steering: Sequence[Any]
    options: dict[str, Any]
    subgraph: CompiledGraph | None = None


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class _Branch:
    """A conditional edge as it was added."""

    source: str
    callee: Callee
    input_schema: Any
    path_map: dict[Hashable, str] | None


class StateGraph(Defaulting, Generic[StateT, ContextT, InputT, OutputT]):
    """A graph whose nodes read a shared state and return updates to it.

    `state_schema` is a TypedDict, dataclass, pydantic model, or an annotated single value; each key is a
    channel, with `Annotated[type, reducer]` where several writes are to be combined. `input_schema` and
    `output_schema` narrow what `invoke` takes and returns. `context_schema` describes `context=`.
    Every method that adds something returns the graph.
    """

    def __init__(
        self,
        state_schema: type[StateT],
        context_schema: type[ContextT] | None = None,
        *,
        input_schema: type[InputT] | None = None,
        output_schema: type[OutputT] | None = None,
    ) -> None:
        self.state_schema = state_schema
        self.context_schema = context_schema
        self.input_schema: Any = input_schema or state_schema
        self.output_schema: Any = output_schema or state_schema
        self.channels: dict[str, BaseChannel[Any]] = {}
        self.nodes: dict[str, _Node] = {}
        self.edges: dict[tuple[str, str], None] = {}
        self.joins: dict[tuple[tuple[str, ...], str], None] = {}
        self.branches: list[_Branch] = []
        self._defaults: dict[str, Any] = {}
        self._default_handler: Callable[..., Any] | None = None
        self._schemas: list[Any] = []
        for schema in (self.state_schema, self.input_schema, self.output_schema):
            self._declare(schema)

    if not TYPE_CHECKING:  # which would take any name for an attribute

        def __getattr__(self, name: str) -> Any:
            remedy = "; compile() makes the graph that has it" if hasattr(CompiledGraph, name) else ""
            raise AttributeError(f"a StateGraph has no attribute {name!r}{remedy}", name=name, obj=self)

    def _declare(self, schema: Any) -> None:
        """Add a schema's channels. Raises `InvalidGraphError` if two schemas disagree about a key."""
        if any(schema is known for known in self._schemas):
            return
        self._schemas.append(schema)
        for key, channel in fields_of(schema).channels.items():
            known = self.channels.get(key)
            if known is None or type(known) is LastValue:
                self.channels[key] = channel
            elif type(channel) is not LastValue and not _same(known, channel):
                raise InvalidGraphError(f"two schemas declare the state key {key!r} with different reducers")

    # Nodes

    def add_node(
        self,
        node: str | Callable[..., Any] | CompiledGraph,
        action: Callable[..., Any] | CompiledGraph | Any = None,
        *,
        defer: bool = False,
        metadata: dict[str, Any] | None = None,
        input_schema: Any = None,
        retry_policy: Retry | None = None,
        cache_policy: CachePolicy | None = None,
        error_handler: Callable[..., Any] | None = None,
        destinations: Mapping[str, str] | Sequence[str] | None = None,
        timeout: Timeout | None = None,
    ) -> Self:
        """Add a node: `add_node("name", function)`, or `add_node(function)` to name it after the function.

        The function gets the state (an instance of `input_schema`, its first parameter's annotated schema,
        or the state schema) and, by parameter name or annotation, `config` (`RunnableConfig`), `runtime`
        (`Runtime`), `store` (`BaseStore`) and, by name alone, `writer`. It returns a
        dict of updates, a `Command`, a `Send`, a list of them, or None. A compiled graph may be a node, and so may an
        agent (or whatever else has `as_node()`).
        `defer` runs it when nothing else is left to run; `destinations` declare where its commands may go
        (a mapping gives labels for drawings);
        `error_handler(state, error)` is called when it has failed for good; either parameter may be left
        out, and the error has its own if it is annotated `NodeError` or named `error`. What it returns stands for what
        the node would have returned; if it is a `Command` with `goto`, that is where the run goes on, and not along
        the node's edges (`goto=END`: nowhere). It survives its process: what the node failed with is recorded first,
        and a run that is gone on with starts at the handler.
        `retry_policy` is one or several, of which the first that knows an error counts. `timeout` bounds every
        attempt: seconds, a `timedelta`, or a `TimeoutPolicy`; a blocking node goes on, but its caller is free and
        what it comes to is refused.
        Raises `InvalidGraphError` for a bad or taken name.
        """
        if action is None:
            if isinstance(node, str):
                raise InvalidGraphError(f"node {node!r} has no function; use add_node({node!r}, function)")
            node, action = name_of(node), node
        name = check_name(node)
        if name in self.nodes:
            raise InvalidGraphError(f"the graph has a node {name!r} already; choose another name")
        action = node_of(action)
        hints = hints_of_function(action)
        schema = input_schema or self._schema_in(input_annotation(action, hints)) or self.state_schema
        self._declare(schema)
        subgraph = action if isinstance(action, CompiledGraph) else None
        steering: Sequence[Any] = ()
        if not destinations:
            steering = (action,) if error_handler is None else (action, error_handler)
        if destinations is None:
            destinations = declared_targets(hints) + _targets_of(error_handler)
        options = {
            "defer": defer,
            "metadata": dict(metadata or {}),
            "retry": policies(retry_policy),
            "cache": cache_policy_of(cache_policy),
            "handler": _handler(error_handler),
            "timeout": TimeoutPolicy.coerce(timeout),
            "sees_state": getattr(action, "sees_state", False),
        }
        self.nodes[name] = _Node(
            action=action,
            callee=callee_of(action, name_of(action))
            if subgraph is None
            else subgraph_callee(subgraph, self.channels),
            input_schema=schema,
            destinations=_labelled(destinations),
            steering=steering,
            subgraph=subgraph,
            options={key: value for key, value in options.items() if value},
        )
        return self

    def set_node_defaults(
        self,
        *,
        retry_policy: Retry | None = None,
        cache_policy: CachePolicy | None = None,
        error_handler: Callable[..., Any] | None = None,
        timeout: Timeout | None = None,
    ) -> Self:
        """Options for every node, added before or after, that does not set them itself. `retry_policy` is for error
        handlers too, those of the nodes and this one."""
        defaults = {
            "retry": policies(retry_policy),
            "handler_retry": policies(retry_policy),
            "cache": cache_policy_of(cache_policy),
            "handler": _handler(error_handler),
            "timeout": TimeoutPolicy.coerce(timeout),
        }
        self._defaults.update({key: value for key, value in defaults.items() if value})
        self._default_handler = error_handler or self._default_handler
        return self

    def _schema_in(self, annotation: Any) -> Any:
        """An annotation that is a schema of its own."""
        if annotation is None:
            return None
        known = annotation is self.state_schema and ROOT not in self.channels
        return annotation if known or hints_of(annotation) else None

    # Edges

    def add_edge(self, start_key: str | Sequence[str], end_key: str) -> Self:
        """Run `end_key` after `start_key`; after *all* of them if it is a list (a join)."""
        if isinstance(start_key, str) or not isinstance(start_key, Iterable):
            self.edges[check_end(start_key), check_end(end_key)] = None
        else:
            self.joins[tuple(map(check_end, start_key)), check_end(end_key)] = None
        return self

    def add_conditional_edges(
        self, source: str, path: Callable[..., Any], path_map: PathMap | None = None
    ) -> Self:
        """After `source`, run what `path(state)` names: one or several nodes, `END`, or `Send`s.

        `path_map` maps its results to nodes, or lists the nodes it may name; without one the `Literal`
        return annotation does, else any node is possible. `path` sees the writes of `source`. It only chooses: in an
        async run it is called on the event loop, and one that has to wait for something is an `async def`.
        """
        hints = hints_of_function(path)
        targets: dict[Hashable, str] | None = None
        if isinstance(path_map, Mapping):
            targets = {choice: check_end(name) for choice, name in path_map.items()}
        elif path_map is not None:
            targets = {name: name for name in map(check_end, path_map)}
        elif literal := declared_targets(hints):
            targets = {name: name for name in literal}
        schema = self._schema_in(input_annotation(path, hints))
        if schema is not None:
            self._declare(schema)
        callee = dataclasses.replace(callee_of(path, name_of(path)), brief=True)
        self.branches.append(_Branch(check_end(source), callee, schema, targets))
        return self

    def add_sequence(self, nodes: Sequence[Any]) -> Self:
        """Add nodes and an edge from each to the next. Elements: functions or (name, function)."""
        if not nodes:
            raise InvalidGraphError("add_sequence needs at least one node")
        previous = None
        for node in nodes:
            name, action = node if isinstance(node, tuple) else (name_of(node), node)
            self.add_node(name, action)
            if previous is not None:
                self.add_edge(previous, name)
            previous = name
        return self

    def set_entry_point(self, key: str) -> Self:
        """The node that runs first: `add_edge(START, key)`."""
        return self.add_edge(START, key)

    def set_conditional_entry_point(self, path: Callable[..., Any], path_map: PathMap | None = None) -> Self:
        """Choose the first node from the input: `add_conditional_edges(START, path, path_map)`."""
        return self.add_conditional_edges(START, path, path_map)

    def set_finish_point(self, key: str) -> Self:
        """The run may end after this node: `add_edge(key, END)`."""
        return self.add_edge(key, END)

    # Compiling

    def compile(
        self,
        checkpointer: BaseCheckpointSaver | bool | None = None,
        *,
        cache: BaseCache | None = None,
        store: Any = None,
        interrupt_before: Sequence[str] | Literal["*"] | None = None,
        interrupt_after: Sequence[str] | Literal["*"] | None = None,
        debug: bool = False,
        name: str | None = None,
        interrupt_matching: Literal["checked", "index"] = "checked",
        recursion_limit: int = DEFAULT_RECURSION_LIMIT,
        executor: Executor | None = None,
        on_conflict: OnConflict = "raise",
        conflict_timeout: float | None = CONFLICT_TIMEOUT,
        on_version_change: OnVersionChange = "raise",
    ) -> CompiledGraph[StateT, ContextT, InputT, OutputT]:
        """Check the structure and make the graph runnable.

        `checkpointer` keeps threads. A graph inside another one uses that one's, and begins anew with every task;
        with True it goes on with the state it had, with False it keeps nothing. `cache` keeps the results of nodes
        that have a `cache_policy`, and of those of the graphs inside that have no cache. `interrupt_before` and
        `interrupt_after` are breakpoints: node names or "*". `interrupt_matching="index"` delivers answers
        to unnamed questions by their order alone. `debug` prints what happens. `executor` runs the nodes: any
        `concurrent.futures.Executor`, given one module-level function and its arguments. While another run owns
        a thread, `on_conflict` raises `ConcurrentUpdateError` or waits for `conflict_timeout` seconds at most.
        `on_version_change` is for threads that another version of the graph has left in a state that this one
        would drop or misread: "raise" `GraphVersionError`, "accept", or a function that is given the stored
        values and a list of the differences, and returns the values to go on with.
        Raises `InvalidGraphError` with all structural faults at once; warns of unreachable nodes.
        """
        check_structure(self._description())
        if interrupt_matching not in ("checked", "index"):
            raise ValueError(f"interrupt_matching must be 'checked' or 'index', not {interrupt_matching!r}")
        for schema in self._schemas:
            register_annotations(schema)
        if on_version_change not in ("raise", "accept") and not callable(on_version_change):
            raise ValueError(
                f"on_version_change must be 'raise', 'accept' or a function, not {on_version_change!r}"
            )
        program = self._program(name or UNNAMED, interrupt_matching == "index")
        program.on_version_change = on_version_change
        return CompiledGraph(
            program,
            builder=self,
            checkpointer=checkpointer,
            cache=cache,
            store=store,
            before=check_nodes(interrupt_before, program, "interrupt_before"),
            after=check_nodes(interrupt_after, program, "interrupt_after"),
            recursion_limit=recursion_limit,
            executor=executor,
            debug=debug,
            context_schema=self.context_schema,
            on_conflict=on_conflict,
            conflict_timeout=conflict_timeout,
        )

    def validate(self) -> Self:
        """The check of the structure that `compile` makes, without making anything."""
        check_structure(self._description())
        return self

    def _description(self) -> GraphDescription:
        nodes = self.nodes.items()
        subgraphs = [(name, node.subgraph) for name, node in nodes if node.subgraph is not None]
        return GraphDescription(
            nodes=tuple(self.nodes),
            edges=tuple(self.edges),
            joins=tuple(self.joins),
            branches=tuple(
                BranchDescription(
                    branch.source,
                    None if branch.path_map is None else tuple(branch.path_map.values()),
                    branch.callee.name,
                )
                for branch in self.branches
            ),
            destinations={name: targets for name, node in nodes if (targets := self._destinations(node))},
            dynamic=frozenset(name for name, node in nodes if any(map(may_go_anywhere, self._steering(node))))
            if self.joins
            else frozenset(),
            misfits=tuple(
                name for name, graph in subgraphs if graph.program.is_root and ROOT not in self.channels
            ),
        )

    def _destinations(self, node: _Node) -> tuple[str, ...]:
        """Where the commands of a node, and those of a default handler that it has, are declared to go."""
        targets = () if "handler" in node.options else _targets_of(self._default_handler)
        return (*node.destinations, *targets)

    def _steering(self, node: _Node) -> Sequence[Any]:
        if self._default_handler is None or "handler" in node.options or not node.steering:
            return node.steering
        return (*node.steering, self._default_handler)

    def _program(self, name: str, unchecked: bool) -> Program:
        readable = frozenset(key for key, channel in self.channels.items() if channel.readable)
        # The output schema may have been set after the graph was made.
        schemas = (*self._schemas, self.output_schema)
        shapes = {id(schema): shape_of(schema, readable) for schema in schemas}
        nodes = {
            key: NodeSpec(
                name=key,
                callee=node.callee,
                shape=shapes[id(node.input_schema)],
                **self._options(name, key, node),
            )
            for key, node in self.nodes.items()
        }
        entry = NodeSpec(name=START, callee=Callee(START, _identity, None, brief=True), shape=Shape(None))
        self._lead({**nodes, START: entry}, shapes)
        return Program(
            name=name,
            channels=dict(self.channels),
            nodes=nodes,
            entry=entry,
            joins=[Join(frozenset(sources), target) for sources, target in self.joins],
            input_keys=frozenset(fields_of(self.input_schema).channels),
            output=shapes[id(self.output_schema)],
            words=Vocabulary(frozenset(self.channels), frozenset(nodes)),
            deferred=frozenset(key for key, node in nodes.items() if node.defer),
            unchecked_matching=unchecked,
        )

    def _lead(self, specs: Mapping[str, NodeSpec], shapes: Mapping[int, Shape]) -> None:
        """Give each node its ways out."""
        successors: defaultdict[str, list[str]] = defaultdict(list)
        for source, target in self.edges:
            if target != END:
                successors[source].append(target)
        for source, targets in successors.items():
            specs[source].successors = tuple(targets)
        joins: defaultdict[str, list[int]] = defaultdict(list)
        for index, (sources, _) in enumerate(self.joins):
            for source in sources:
                joins[source].append(index)
        for source, indexes in joins.items():
            specs[source].joins = tuple(indexes)
        for branch in self.branches:
            source = branch.source
            schema = branch.input_schema or (
                self.state_schema if source == START else self.nodes[source].input_schema
            )
            specs[source].branches += (Branch(branch.callee, shapes[id(schema)], branch.path_map),)

    def _options(self, graph: str, name: str, node: _Node) -> dict[str, Any]:
        """What a node's `NodeSpec` has beside its ways out, where that is not the default."""
        if not (self._defaults or "cache" in node.options or node.subgraph is not None):
            return node.options
        options = {**self._defaults, **node.options}
        if "cache" in options:
            options["cache"] = Caching((graph, name, identifier(node.action)), options["cache"])
        if node.subgraph is not None:
            options.update(subgraph=node.subgraph.program, keeps=node.subgraph.keeps)
        return options


def _identity(value: Any) -> Any:
    return value


def _labelled(destinations: Mapping[str, str] | Sequence[str]) -> dict[str, str | None]:
    return dict(destinations) if isinstance(destinations, Mapping) else dict.fromkeys(destinations)


def _same(one: BaseChannel[Any], other: BaseChannel[Any]) -> bool:
    return type(one) is type(other) and one.operator is other.operator


def policies(retry: Retry | None) -> tuple[RetryPolicy, ...]:
    """Retry policies in the order in which they are asked. Raises `TypeError` for anything else."""
    if retry is None:
        return ()
    several = (retry,) if isinstance(retry, RetryPolicy) or not isinstance(retry, Iterable) else tuple(retry)
    for policy in several:
        if not isinstance(policy, RetryPolicy):
            raise TypeError(f"retry_policy must be a RetryPolicy or several of them, not {retry!r}")
    return several


def cache_policy_of(policy: CachePolicy | None) -> CachePolicy | None:
    """The cache policy. Raises `TypeError` for anything else."""
    if policy is not None and not isinstance(policy, CachePolicy):
        raise TypeError(f"cache_policy must be a CachePolicy, not {policy!r}")
    return policy


def _targets_of(handler: Callable[..., Any] | None) -> tuple[str, ...]:
    return () if handler is None else declared_targets(hints_of_function(handler))


def _handler(handler: Callable[..., Any] | None) -> Callee | None:
    return None if handler is None else handler_of(handler, name_of(handler))
