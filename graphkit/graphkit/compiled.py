"""`CompiledGraph`: a graph that can be run, looked at and edited.

Each pair of sync and async methods is two doors into one kernel; what they do is decided there.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar, Unpack, cast, overload

from graphkit.composing import Composable
from graphkit.context import ContextSchema
from graphkit.door import (
    CONFLICT_TIMEOUT,
    Door,
    OnConflict,
    RunOptions,
    Setting,
    check_nodes,
    merged,
    positive_int,
)
from graphkit.drivers.session import Kernel
from graphkit.engine.program import Program, cache_namespaces
from graphkit.engine.request import End, Names, Position, Request
from graphkit.runs import aevents, events, undrained
from graphkit.shapes import config_at
from graphkit.streams import AsyncChunks, Output, OutputKeys, Stream, Version
from graphkit.tracebacks import users_frames
from graphkit.type_variables import ContextT, Defaulting, InputT, OutputT, StateT
from graphkit.types import RunnableConfig, RunResult, StateSnapshot, StateUpdate, StreamMode
from graphkit_checkpoint.admission import addressed, check_thread_id
from graphkit_checkpoint.base import BaseCheckpointSaver
from graphkit_checkpoint.cache.base import BaseCache

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from graphkit.drivers.aio import AsyncDriver
    from graphkit.graph.draw import DrawableGraph
    from graphkit.node import CompiledNode
    from graphkit.parts import GraphOutput, StreamPart
    from graphkit.snapshot import Viewer
    from graphkit_checkpoint.records import Checkpoint

__all__ = ["CompiledGraph", "check_nodes"]

T = TypeVar("T")
Config = RunnableConfig | None


class ShownValues(RunOptions, total=False):
    """Options of a run, and of what is shown of its values."""

    output_keys: OutputKeys
    subgraphs: bool


class Shown(ShownValues, total=False):
    """Options of a run, and of what is shown of it."""

    stream_mode: StreamMode | Sequence[StreamMode] | None


class CompiledGraph(Composable, Defaulting, Generic[StateT, ContextT, InputT, OutputT]):
    """Made by `StateGraph.compile`, its `builder`, or of an entrypoint's `function`. Holds no state of its own: one
    object serves any number of runs."""

    def __init__(
        self,
        program: Program,
        *,
        builder: Any = None,
        function: Callable[..., Any] | None = None,
        checkpointer: BaseCheckpointSaver | bool | None = None,
        cache: BaseCache | None = None,
        store: Any = None,
        before: Names = frozenset(),
        after: Names = frozenset(),
        recursion_limit: int,
        executor: Executor | None = None,
        debug: bool = False,
        context_schema: Any = None,
        on_conflict: OnConflict = "raise",
        conflict_timeout: float | None = CONFLICT_TIMEOUT,
        apart: bool = False,
    ) -> None:
        self.program = program
        self.name = program.name
        self.builder = builder
        self.function = function
        self._setting = Setting(
            program=program,
            checkpointer=checkpointer,
            cache=cache,
            store=store,
            before=before,
            after=after,
            recursion_limit=positive_int(recursion_limit, "recursion_limit"),
            executor=executor,
            context_schema=None if context_schema is None else ContextSchema(context_schema, program.name),
            config={},
            on_conflict=on_conflict,
            conflict_timeout=conflict_timeout,
            debug=debug,
            apart=apart,
        )

    def __repr__(self) -> str:
        return f"CompiledGraph({self.name!r}, nodes={list(self.program.nodes)})"

    @property
    def nodes(self) -> dict[str, CompiledNode]:
        """Each node by its name, to be called alone."""
        from graphkit.node import CompiledNode

        return {name: CompiledNode(spec, self._setting.store) for name, spec in self.program.nodes.items()}

    @property
    def setting(self) -> Setting:
        """What it brings to every run of it."""
        return self._setting

    @property
    def checkpointer(self) -> BaseCheckpointSaver | None:
        """The graph's own saver. Another one that it is given counts for the runs made after that."""
        return self._setting.saver

    @checkpointer.setter
    def checkpointer(self, saver: BaseCheckpointSaver | bool | None) -> None:
        self._setting = replace(self._setting, checkpointer=saver)

    @property
    def cache(self) -> BaseCache | None:
        """The graph's own cache, which can be another one for the runs made after that."""
        return self._setting.cache

    @cache.setter
    def cache(self, cache: BaseCache | None) -> None:
        self._setting = replace(self._setting, cache=cache)

    @property
    def store(self) -> Any:
        """The graph's own store, which can be another one for the runs made after that."""
        return self._setting.store

    @store.setter
    def store(self, store: Any) -> None:
        self._setting = replace(self._setting, store=store)

    def with_config(self, config: RunnableConfig | None = None, **keys: Any) -> Self:
        """The same graph with defaults for every run's config: those of `config`, and single `keys` of one."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        given = merged(config or {}, cast(RunnableConfig, keys))
        other._setting = replace(self._setting, config=merged(self._setting.config, given))
        return other

    # Running

    @overload
    def invoke(
        self, input: Any, config: Config = None, *, version: Literal["v1"] = "v1", **options: Unpack[Shown]
    ) -> Any: ...
    @overload
    def invoke(
        self, input: Any, config: Config = None, *, version: Literal["v2"], **options: Unpack[ShownValues]
    ) -> GraphOutput[OutputT]: ...
    @overload
    def invoke(
        self, input: Any, config: Config = None, *, version: Literal["v2"], **options: Unpack[Shown]
    ) -> Any: ...
    def invoke(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] | None = "values",
        output_keys: OutputKeys = None,
        subgraphs: bool = False,
        version: Version = "v1",
        **options: Unpack[RunOptions],
    ) -> Any:
        """Run until the end, a question or a breakpoint; returns the output values.

        `input` is a new turn's values, None to go on, a `Command`, or a list of `interruptResponse` blocks.
        If questions are open the values have them under "__interrupt__". Raises what a node raised (with a
        note naming it), and the errors of `graphkit.errors` for a wrong input, before any node runs.

        `output_keys` names keys of the state to return instead, or one whose value is returned. `version="v2"`
        returns a `GraphOutput`. A `stream_mode` other than "values" returns the list of what `stream` yields.
        """
        with users_frames:
            if stream_mode not in ("values", None):
                stream = Stream(self.program, stream_mode, subgraphs, output_keys, version)
                return list(self._parts(input, config, options, stream))
            output = Output(self.program, output_keys, version)
            return output.of(undrained(self._end(input, config, options, output)))

    @overload
    async def ainvoke(
        self, input: Any, config: Config = None, *, version: Literal["v1"] = "v1", **options: Unpack[Shown]
    ) -> Any: ...
    @overload
    async def ainvoke(
        self, input: Any, config: Config = None, *, version: Literal["v2"], **options: Unpack[ShownValues]
    ) -> GraphOutput[OutputT]: ...
    @overload
    async def ainvoke(
        self, input: Any, config: Config = None, *, version: Literal["v2"], **options: Unpack[Shown]
    ) -> Any: ...
    async def ainvoke(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] | None = "values",
        output_keys: OutputKeys = None,
        subgraphs: bool = False,
        version: Version = "v1",
        **options: Unpack[RunOptions],
    ) -> Any:
        """`invoke` on the running event loop."""
        with users_frames:
            if stream_mode not in ("values", None):
                stream = Stream(self.program, stream_mode, subgraphs, output_keys, version)
                async with aclosing(self._aparts(input, config, options, stream, [])) as parts:
                    return [part async for each in parts for part in each]
            output = Output(self.program, output_keys, version)
            return output.of(undrained(await self._aend(input, config, options, output)))

    def run(
        self, input: Any, config: RunnableConfig | None = None, **options: Unpack[RunOptions]
    ) -> RunResult:
        """Like `invoke`, but tells how the run ended: completed, interrupted or paused at a breakpoint."""
        with users_frames:
            return self._result(self._end(input, config, options), config)

    async def arun(
        self, input: Any, config: RunnableConfig | None = None, **options: Unpack[RunOptions]
    ) -> RunResult:
        """`run` on the running event loop."""
        with users_frames:
            return self._result(await self._aend(input, config, options), config)

    def batch(
        self,
        inputs: Sequence[Any],
        config: RunnableConfig | Sequence[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **options: Any,
    ) -> list[Any]:
        """`invoke` for each of the inputs, side by side in threads; `config` is for all of them, or one for each.

        Results have the order of the inputs. At most `config["max_concurrency"]` run at a time. The first error is
        raised when all have ended; with `return_exceptions` errors stand in the places of results.
        """
        from graphkit.batches import batched

        invoke = functools.partial(self.invoke, **options)
        return batched(invoke, inputs, config, return_exceptions)

    async def abatch(
        self,
        inputs: Sequence[Any],
        config: RunnableConfig | Sequence[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **options: Any,
    ) -> list[Any]:
        """`batch` on the running event loop."""
        from graphkit.batches import abatched

        ainvoke = functools.partial(self.ainvoke, **options)
        return await abatched(ainvoke, inputs, config, return_exceptions)

    @overload
    def stream(
        self, input: Any, config: Config = None, *, version: Literal["v1"] = "v1", **options: Unpack[Shown]
    ) -> Iterator[Any]: ...
    @overload
    def stream(
        self, input: Any, config: Config = None, *, version: Literal["v2"], **options: Unpack[Shown]
    ) -> Iterator[StreamPart]: ...
    def stream(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] | None = None,
        output_keys: OutputKeys = None,
        subgraphs: bool = False,
        version: Version = "v1",
        **options: Unpack[RunOptions],
    ) -> Iterator[Any]:
        """Run and yield what happens: chunks of one mode, or (mode, chunk) for a list of modes.

        "values": the state after each superstep that wrote to it; "updates" (default): {node: update} for each
        finished task; "tasks": each task's start and result; "checkpoints": each checkpoint; "debug": both, with
        step and time; "custom": what nodes wrote to their stream writer; "messages": (message or a part of one,
        metadata), as nodes write them to `runtime.message_writer`, and complete ones that they return.

        With `subgraphs` the runs nested in this one are shown too, at any depth, and a namespace comes first:
        (("node:task-id", ...), chunk), () for this run. `output_keys` limits "values" and "updates" to some keys
        of the state. `version="v2"` yields a `StreamPart` for each chunk: {"type", "ns", "data"}.

        With durability "sync" nothing is yielded before it is committed, but what nodes write while they run. A
        node in a thread that writes more than is read waits. A consumer that stops early ends the run, and
        leaves nothing running but blocking nodes, whose results are refused; the thread can be used at once.
        """
        with users_frames:
            modes = "updates" if stream_mode is None else stream_mode
            stream = Stream(self.program, modes, subgraphs, output_keys, version)
            with closing(self._parts(input, config, options, stream)) as parts:
                yield from parts

    @overload
    def astream(
        self, input: Any, config: Config = None, *, version: Literal["v1"] = "v1", **options: Unpack[Shown]
    ) -> AsyncIterator[Any]: ...
    @overload
    def astream(
        self, input: Any, config: Config = None, *, version: Literal["v2"], **options: Unpack[Shown]
    ) -> AsyncIterator[StreamPart]: ...
    def astream(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] | None = None,
        output_keys: OutputKeys = None,
        subgraphs: bool = False,
        version: Version = "v1",
        **options: Unpack[RunOptions],
    ) -> AsyncIterator[Any]:
        """`stream` on the running event loop."""
        modes = "updates" if stream_mode is None else stream_mode
        stream = Stream(self.program, modes, subgraphs, output_keys, version)
        opened: list[AsyncDriver] = []
        return AsyncChunks(self._aparts(input, config, options, stream, opened), opened)

    def _parts(
        self, input: Any, config: RunnableConfig | None, options: RunOptions, stream: Stream
    ) -> Generator[Any, None, None]:
        with closing(events(self._setting, input, config, options, stream)) as emitted:
            while True:
                try:
                    batch = next(emitted)
                except StopIteration as stop:
                    undrained(stop.value)
                    return
                yield from stream.parts(batch)

    async def _aparts(
        self,
        input: Any,
        config: RunnableConfig | None,
        options: RunOptions,
        stream: Stream,
        opened: list[AsyncDriver],
    ) -> AsyncGenerator[list[Any], None]:
        async with aclosing(aevents(self._setting, input, config, options, stream, opened)) as emitted:
            async for batch in emitted:
                yield stream.parts(batch)
        undrained(opened[0].result)

    def _end(
        self, input: Any, config: RunnableConfig | None, options: RunOptions, output: Output | None = None
    ) -> End:
        stream = None if output is None else output.stream
        emitted = events(self._setting, input, config, options, stream)
        while True:
            try:
                batch = next(emitted)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            if output is not None:
                output.take(batch)

    async def _aend(
        self, input: Any, config: RunnableConfig | None, options: RunOptions, output: Output | None = None
    ) -> End:
        opened: list[AsyncDriver] = []
        stream = None if output is None else output.stream
        async for batch in aevents(self._setting, input, config, options, stream, opened):
            if output is not None:
                output.take(batch)
        return opened[0].result  # type: ignore[no-any-return]

    def _result(self, end: End, config: RunnableConfig | None) -> RunResult:
        where = config_at(end.thread_id, end.checkpoint_id, end.namespace) if end.checkpoint_id else config
        return RunResult(
            status=end.status,
            value=end.values,
            interrupts=end.interrupts,
            next=end.next,
            config=where or {},
        )

    # Looking

    def get_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """The thread at its head, or at the config's `checkpoint_id`. Needs a checkpointer.

        A `checkpoint_ns` addresses a graph inside this one. The `state` of a task that is one, or calls one, is
        its config, with `subgraphs` its snapshot; of several calls it is the last.
        """
        viewer, place = self._viewer(config, "get_state", subgraphs)
        return viewer.state(place)

    async def aget_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """`get_state` on the running event loop."""
        viewer, place = self._viewer(config, "aget_state", subgraphs)
        return await viewer.saver.off_loop(viewer.state, place)

    def get_state_history(
        self,
        config: RunnableConfig,
        *,
        filter: Mapping[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[StateSnapshot]:
        """The thread's checkpoints, newest first: those whose metadata has every item of `filter`, older than
        `before`, at most `limit`. A `checkpoint_ns` addresses a graph inside this one."""
        viewer, place = self._viewer(config, "get_state_history")
        earlier = addressed((before or {}).get("configurable", {}), "checkpoint_id")
        yield from viewer.history(place, before=earlier, limit=limit, filter=filter)

    async def aget_state_history(
        self,
        config: RunnableConfig,
        *,
        filter: Mapping[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[StateSnapshot]:
        """`get_state_history` on the running event loop."""
        viewer, place = self._viewer(config, "aget_state_history")
        earlier = addressed((before or {}).get("configurable", {}), "checkpoint_id")
        found = viewer.history(place, before=earlier, limit=limit, filter=filter)
        while (shown := await viewer.saver.off_loop(next, found, None)) is not None:
            yield shown

    def _viewer(self, config: RunnableConfig, call: str, subgraphs: bool = False) -> tuple[Viewer, Position]:
        """What shows the graph's checkpoints, and which of them the config addresses."""
        from graphkit.snapshot import Viewer

        if self.checkpointer is None:
            raise ValueError(f"{call}() needs a checkpointer: compile(checkpointer=...)")
        configurable = merged(self._setting.config, config).get("configurable", {})
        thread_id = check_thread_id(configurable.get("thread_id"))
        return Viewer(self, self.checkpointer, subgraphs), Position.of(thread_id, configurable)

    @property
    def keeps(self) -> bool | None:
        """What it keeps inside another graph: True for its state, False for nothing, None for the state of one
        task."""
        checkpointer = self._setting.checkpointer
        return checkpointer if isinstance(checkpointer, bool) else None

    def get_subgraphs(
        self, *, namespace: str | None = None, recurse: bool = False
    ) -> Iterator[tuple[str, CompiledGraph]]:
        """The graphs that nodes are, or that their functions refer to, with the names of their nodes; with `recurse`
        also those inside them ("node|node"), with `namespace` only those of that name."""
        from graphkit.graph.nesting import subgraphs

        return subgraphs(self, namespace, recurse)

    async def aget_subgraphs(
        self, *, namespace: str | None = None, recurse: bool = False
    ) -> AsyncIterator[tuple[str, CompiledGraph]]:
        """`get_subgraphs` as an async iterator."""
        for found in self.get_subgraphs(namespace=namespace, recurse=recurse):
            yield found

    # Editing

    def update_state(
        self,
        config: RunnableConfig,
        values: Any,
        as_node: str | None = None,
    ) -> RunnableConfig:
        """Write values as if `as_node` had returned them; returns the config of the new checkpoint.

        Without `as_node` the node that ran last is meant (`InvalidUpdateError` if several did), on a fresh thread
        `START`. For an entrypoint, values are what it would have returned. `END` with None ends the thread,
        "__copy__" with None copies the checkpoint. At an older checkpoint this makes a fork. Raises
        `ConcurrentUpdateError` while a run owns the thread.
        """
        return self.bulk_update_state(config, [[StateUpdate(values, as_node)]])

    async def aupdate_state(
        self,
        config: RunnableConfig,
        values: Any,
        as_node: str | None = None,
    ) -> RunnableConfig:
        """`update_state` on the running event loop."""
        return await self.abulk_update_state(config, [[StateUpdate(values, as_node)]])

    def bulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Several supersteps of updates in one commit. Raises `ValueError` if there are none."""
        from graphkit.drivers.sync import SyncDriver

        with closing(self._edit_door(config)) as door:
            request = self._edit_request(door, supersteps)
            events = SyncDriver(door.session()).drive(self._edit(request, supersteps))
            try:
                next(events)
            except StopIteration as stop:
                return _config_of(request, stop.value)
            raise AssertionError("editing emits nothing")

    async def abulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """`bulk_update_state` on the running event loop."""
        from graphkit.drivers.aio import AsyncDriver

        with closing(self._edit_door(config)) as door:
            request = self._edit_request(door, supersteps)
            driver = AsyncDriver(door.session())
            async for _ in driver.drive(self._edit(request, supersteps)):
                raise AssertionError("editing emits nothing")
            return _config_of(request, driver.result)

    def _edit_door(self, config: RunnableConfig) -> Door:
        self._viewer(config, "update_state")
        return Door(self._setting, None, config, {}, nests=False)

    def _edit_request(self, door: Door, supersteps: Sequence[Sequence[StateUpdate]]) -> Request:
        if not supersteps:
            raise ValueError("no supersteps were given; give a list of lists of StateUpdate")
        return door.request()

    def _edit(self, request: Request, supersteps: Sequence[Sequence[StateUpdate]]) -> Kernel:
        from graphkit.engine.edit import edit

        graph: CompiledGraph | None = self
        if request.namespace:
            from graphkit.graph.nesting import graph_at

            graph = graph_at(self, request.namespace)
        if graph is None:
            raise ValueError(
                f"namespace {request.namespace!r} is that of no graph which a node of {self.name!r} is or refers to; "
                f"get_subgraphs(recurse=True) lists those"
            )
        return edit(graph.program, request, supersteps)

    # Schemas

    def get_input_jsonschema(self, config: RunnableConfig | None = None) -> dict[str, Any]:
        """What `invoke` takes, as a JSON schema; {} of an entrypoint, which says nothing of it. `config` changes
        nothing."""
        return self._json_schema("input_schema")

    def get_output_jsonschema(self, config: RunnableConfig | None = None) -> dict[str, Any]:
        """What `invoke` returns, as a JSON schema; {} of an entrypoint. `config` changes nothing."""
        return self._json_schema("output_schema")

    def get_context_jsonschema(self) -> dict[str, Any] | None:
        """The `context_schema` as a JSON schema; None if there is none."""
        from graphkit.schemas import json_schema_of

        context = self._setting.context_schema
        return None if context is None else json_schema_of(context.schema)

    def _json_schema(self, name: str) -> dict[str, Any]:
        from graphkit.schemas import json_schema_of

        return json_schema_of(getattr(self.builder, name, None))

    # Caching

    def clear_cache(self, nodes: Sequence[str] | None = None) -> None:
        """Forget the cached results of `nodes`, by default of all; of a node that is a graph, those of its nodes.

        Raises `ValueError` without a cache, and for a name that is no node of the graph.
        """
        cache, namespaces = self._cached("clear_cache", nodes)
        cache.clear(namespaces)

    async def aclear_cache(self, nodes: Sequence[str] | None = None) -> None:
        """`clear_cache` on the running event loop."""
        cache, namespaces = self._cached("aclear_cache", nodes)
        await cache.aclear(namespaces)

    def _cached(self, call: str, nodes: Sequence[str] | None) -> tuple[BaseCache, list[tuple[str, ...]]]:
        if self._setting.cache is None:
            raise ValueError(f"{call}() needs a cache: compile(cache=...)")
        wanted = self.program.nodes if nodes is None else check_nodes(nodes, self.program, call)
        return self._setting.cache, list(cache_namespaces(self.program, wanted))

    # Drawing

    @property
    def breakpoints(self) -> tuple[Names, Names]:
        """The nodes that runs pause before and after, as compiled."""
        return self._setting.before, self._setting.after

    def get_graph(self, config: RunnableConfig | None = None, *, xray: bool | int = False) -> DrawableGraph:
        """The graph as a drawing: `draw_mermaid()`, `draw_ascii()`, `draw_png()`, `draw_svg()`, `to_networkx()`.

        `xray` draws graphs in the place of the nodes that they are, or whose functions refer to them alone: True at
        every depth, a number down to that depth.
        `config` changes nothing: a drawing does not depend on a run.
        """
        from graphkit.graph.describe import drawable

        return drawable(self, xray)

    async def aget_graph(
        self, config: RunnableConfig | None = None, *, xray: bool | int = False
    ) -> DrawableGraph:
        """`get_graph`, for callers that await it. It waits for nothing."""
        return self.get_graph(config, xray=xray)


def _config_of(request: Request, checkpoint: Checkpoint) -> RunnableConfig:
    return config_at(request.thread_id, checkpoint.id, request.namespace, checkpoint.metadata.get("parents"))
