"""`CompiledGraph`: a graph that can be run, looked at and edited.

Each pair of sync and async methods is two doors into one kernel; what they do is decided there.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack

from graphkit.constants import INTERRUPT
from graphkit.door import (
    CONFLICT_TIMEOUT,
    Door,
    OnConflict,
    RunOptions,
    Setting,
    check_nodes,
    merged,
    patience,
    positive_int,
)
from graphkit.drivers.session import Kernel
from graphkit.engine.loop import ParentCommand, run
from graphkit.engine.program import Program
from graphkit.engine.request import End, Names, Request
from graphkit.errors import InvalidUpdateError
from graphkit.streams import AsyncChunks, check_modes, chunks, config_at, describe
from graphkit.types import RunnableConfig, RunResult, StateSnapshot, StateUpdate, StreamMode
from graphkit_checkpoint.admission import check_thread_id
from graphkit_checkpoint.base import BaseCheckpointSaver
from graphkit_checkpoint.cache.base import BaseCache
from graphkit_checkpoint.records import Saved

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from graphkit.drivers.aio import AsyncDriver
    from graphkit.graph.draw import DrawableGraph

__all__ = ["CompiledGraph", "check_nodes"]

T = TypeVar("T")
QUIET: frozenset[str] = frozenset()


class CompiledGraph:
    """Made by `StateGraph.compile`. Holds no state of its own: one object serves any number of runs."""

    def __init__(
        self,
        program: Program,
        *,
        builder: Any = None,
        checkpointer: BaseCheckpointSaver | Literal[False] | None = None,
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
    ) -> None:
        self.program = program
        self.name = program.name
        self.builder = builder
        self.checkpointer = checkpointer or None
        self.debug = debug
        self._setting = Setting(
            program=program,
            saver=self.checkpointer,
            alone=checkpointer is False,
            cache=cache,
            store=store,
            before=before,
            after=after,
            recursion_limit=positive_int(recursion_limit, "recursion_limit"),
            executor=executor,
            context_schema=context_schema,
            config={},
            on_conflict=on_conflict,
            conflict_timeout=conflict_timeout,
        )
        patience(on_conflict, conflict_timeout)

    def __repr__(self) -> str:
        return f"CompiledGraph({self.name!r}, nodes={list(self.program.nodes)})"

    def with_config(self, config: RunnableConfig) -> CompiledGraph:
        """The same graph with defaults for every run's config."""
        other = CompiledGraph.__new__(CompiledGraph)
        other.__dict__.update(self.__dict__)
        other._setting = replace(self._setting, config=merged(self._setting.config, config))
        return other

    # Running

    def invoke(self, input: Any, config: RunnableConfig | None = None, **options: Unpack[RunOptions]) -> Any:
        """Run until the end, a question or a breakpoint; returns the output values.

        `input` is a new turn's values, None to go on, a `Command`, or a list of `interruptResponse` blocks.
        If questions are open the values have them under "__interrupt__". Raises what a node raised (with a
        note naming it), and the errors of `graphkit.errors` for a wrong input, before any node runs.
        """
        return _invoked(self._end(input, config, options))

    async def ainvoke(
        self, input: Any, config: RunnableConfig | None = None, **options: Unpack[RunOptions]
    ) -> Any:
        """`invoke` on the running event loop."""
        return _invoked(await self._aend(input, config, options))

    def run(
        self, input: Any, config: RunnableConfig | None = None, **options: Unpack[RunOptions]
    ) -> RunResult:
        """Like `invoke`, but tells how the run ended: completed, interrupted or paused at a breakpoint."""
        return self._result(self._end(input, config, options), config)

    async def arun(
        self, input: Any, config: RunnableConfig | None = None, **options: Unpack[RunOptions]
    ) -> RunResult:
        """`run` on the running event loop."""
        return self._result(await self._aend(input, config, options), config)

    def stream(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] = "updates",
        **options: Unpack[RunOptions],
    ) -> Iterator[Any]:
        """Run and yield what happens: chunks of one mode, or (mode, chunk) for a list of modes.

        "values": the output after each superstep; "updates": {node: update} for each finished task;
        "tasks": each task's start and result; "checkpoints": each checkpoint; "custom": what nodes wrote to
        their stream writer. With durability "sync" nothing is yielded before it is committed. A consumer
        that stops early ends the run; the thread can be used at once.
        """
        modes = check_modes(stream_mode)
        with closing(self._events(input, config, options, _wanted(modes))) as events:
            for event in events:
                for mode, chunk in chunks(event, modes):
                    yield chunk if isinstance(stream_mode, str) else (mode, chunk)

    def astream(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] = "updates",
        **options: Unpack[RunOptions],
    ) -> AsyncIterator[Any]:
        """`stream` on the running event loop."""
        modes = check_modes(stream_mode)
        opened: list[AsyncDriver] = []
        chunked = self._achunks(input, config, modes, isinstance(stream_mode, str), options, opened)
        return AsyncChunks(chunked, opened)

    async def _achunks(
        self,
        input: Any,
        config: RunnableConfig | None,
        modes: Sequence[StreamMode],
        bare: bool,
        options: RunOptions,
        opened: list[AsyncDriver],
    ) -> AsyncGenerator[Any, None]:
        async with aclosing(self._aevents(input, config, options, _wanted(modes), opened)) as events:
            async for event in events:
                for mode, chunk in chunks(event, modes):
                    yield chunk if bare else (mode, chunk)

    def _events(
        self, input: Any, config: RunnableConfig | None, options: RunOptions, listen: frozenset[str]
    ) -> Generator[Any, None, End]:
        from graphkit.drivers.sync import SyncDriver
        from graphkit.drivers.termination import writing_on_sigterm

        listen = listen | {"tasks", "updates"} if self.debug else listen
        door = Door(self._setting, input, config, options)
        driver = SyncDriver(door.session(listen))
        try:
            request = door.request(listen, driver.emit if "custom" in listen else None)
            kernel = run(self.program, request)
            with writing_on_sigterm(request.writes_at_end), closing(driver.drive(kernel)) as events:
                end: End = yield from self._shown(events)
        except ParentCommand as command:
            raise self._for_parent(door, command) from None
        finally:
            door.close()
        if door.frame is not None and end.waits:
            door.frame.pass_on(end.asked)
        return end

    async def _aevents(
        self,
        input: Any,
        config: RunnableConfig | None,
        options: RunOptions,
        listen: frozenset[str],
        opened: list[AsyncDriver],
    ) -> AsyncGenerator[Any, None]:
        """The run's events. Its driver is put into `opened`, where the run's result is found afterwards."""
        from graphkit.drivers.aio import AsyncDriver
        from graphkit.drivers.termination import writing_on_sigterm

        listen = listen | {"tasks", "updates"} if self.debug else listen
        door = Door(self._setting, input, config, options)
        driver = AsyncDriver(door.session(listen))
        opened.append(driver)
        try:
            request = door.request(listen, driver.emit if "custom" in listen else None)
            kernel = run(self.program, request)
            with writing_on_sigterm(request.writes_at_end):
                async with aclosing(driver.drive(kernel)) as events:
                    async for event in events:
                        self._print(event)
                        yield event
        except ParentCommand as command:
            raise self._for_parent(door, command) from None
        finally:
            door.close()
        if door.frame is not None and driver.result.waits:
            door.frame.pass_on(driver.result.asked)

    def _shown(self, events: Generator[Any, None, Any]) -> Generator[Any, None, Any]:
        if not self.debug:
            return (yield from events)
        while True:
            try:
                event = next(events)
            except StopIteration as stop:
                return stop.value
            self._print(event)
            yield event

    def _print(self, event: Any) -> None:
        line = describe(event) if self.debug else None
        if line is not None:
            print(f"[{self.name}] {line}")

    def _for_parent(self, door: Door, command: ParentCommand) -> BaseException:
        if door.frame is not None:
            return command
        return InvalidUpdateError(
            f"node {command.node!r} of graph {self.name!r} returned Command(graph=Command.PARENT), and no graph is "
            f"around it"
        )

    def _end(self, input: Any, config: RunnableConfig | None, options: RunOptions) -> End:
        events = self._events(input, config, options, QUIET)
        while True:
            try:
                next(events)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]

    async def _aend(self, input: Any, config: RunnableConfig | None, options: RunOptions) -> End:
        opened: list[AsyncDriver] = []
        async for _ in self._aevents(input, config, options, QUIET, opened):
            pass
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

    def get_state(self, config: RunnableConfig) -> StateSnapshot:
        """The thread at its head, or at the config's `checkpoint_id`. Needs a checkpointer."""
        saver, where = self._address(config, "get_state")
        return self._snapshot(saver.load(*where), where)

    async def aget_state(self, config: RunnableConfig) -> StateSnapshot:
        """`get_state` on the running event loop."""
        saver, where = self._address(config, "aget_state")
        return self._snapshot(await saver.aload(*where), where)

    def get_state_history(
        self,
        config: RunnableConfig,
        *,
        filter: Mapping[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[StateSnapshot]:
        """The thread's checkpoints, newest first: those whose metadata has every item of `filter`, older than
        `before`, at most `limit`."""
        saver, (thread_id, namespace, _) = self._address(config, "get_state_history")
        earlier = (before or {}).get("configurable", {}).get("checkpoint_id")
        for saved in saver.history(thread_id, namespace, before=earlier, limit=limit, filter=filter):
            yield self._snapshot(saved, (thread_id, namespace, saved.checkpoint.id))

    async def aget_state_history(
        self,
        config: RunnableConfig,
        *,
        filter: Mapping[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[StateSnapshot]:
        """`get_state_history` on the running event loop."""
        saver, (thread_id, namespace, _) = self._address(config, "aget_state_history")
        earlier = (before or {}).get("configurable", {}).get("checkpoint_id")
        async for saved in saver.ahistory(thread_id, namespace, before=earlier, limit=limit, filter=filter):
            yield self._snapshot(saved, (thread_id, namespace, saved.checkpoint.id))

    def _address(
        self, config: RunnableConfig, call: str
    ) -> tuple[BaseCheckpointSaver, tuple[str, str, str | None]]:
        """The saver, and thread id, namespace and checkpoint id of a config."""
        if self.checkpointer is None:
            raise ValueError(f"{call}() needs a checkpointer: compile(checkpointer=...)")
        configurable = merged(self._setting.config, config).get("configurable", {})
        thread_id = check_thread_id(configurable.get("thread_id"))
        namespace = configurable.get("checkpoint_ns") or ""
        return self.checkpointer, (thread_id, namespace, configurable.get("checkpoint_id"))

    def _snapshot(self, saved: Saved | None, where: tuple[str, str, str | None]) -> StateSnapshot:
        from graphkit import snapshot

        thread_id, namespace, checkpoint_id = where
        if saved is None:
            return snapshot.unknown(config_at(thread_id, checkpoint_id, namespace))
        return snapshot.snapshot(self.program, saved, thread_id, namespace, checkpoint_id is None)

    # Editing

    def update_state(
        self,
        config: RunnableConfig,
        values: Any,
        as_node: str | None = None,
    ) -> RunnableConfig:
        """Write values as if `as_node` had returned them; returns the config of the new checkpoint.

        Without `as_node` the node that ran last is meant (`InvalidUpdateError` if several did). `END` with
        None ends the thread, "__copy__" with None copies the checkpoint. At an older checkpoint this makes
        a fork. Raises `ConcurrentUpdateError` while a run owns the thread.
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
            events = SyncDriver(door.session(QUIET)).drive(self._edit(request, supersteps))
            try:
                next(events)
            except StopIteration as stop:
                return config_at(request.thread_id, stop.value, request.namespace)
            raise AssertionError("editing emits nothing")

    async def abulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """`bulk_update_state` on the running event loop."""
        from graphkit.drivers.aio import AsyncDriver

        with closing(self._edit_door(config)) as door:
            request = self._edit_request(door, supersteps)
            driver = AsyncDriver(door.session(QUIET))
            async for _ in driver.drive(self._edit(request, supersteps)):
                raise AssertionError("editing emits nothing")
            return config_at(request.thread_id, driver.result, request.namespace)

    def _edit_door(self, config: RunnableConfig) -> Door:
        self._address(config, "update_state")
        return Door(self._setting, None, config, {}, nests=False)

    def _edit_request(self, door: Door, supersteps: Sequence[Sequence[StateUpdate]]) -> Request:
        if not supersteps:
            raise ValueError("no supersteps were given; give a list of lists of StateUpdate")
        return door.request(QUIET, None)

    def _edit(self, request: Request, supersteps: Sequence[Sequence[StateUpdate]]) -> Kernel:
        from graphkit.engine.edit import edit

        return edit(self.program, request, supersteps)

    # Drawing

    @property
    def breakpoints(self) -> tuple[Names, Names]:
        """The nodes that runs pause before and after, as compiled."""
        return self._setting.before, self._setting.after

    def get_graph(self) -> DrawableGraph:
        """The graph as a drawing: `draw_mermaid()`, `to_networkx()`."""
        from graphkit.graph.describe import drawable

        return drawable(self)


def _wanted(modes: Sequence[StreamMode]) -> frozenset[str]:
    wanted = frozenset(modes)
    return wanted | {"tasks", "checkpoints"} if "debug" in wanted else wanted


def _invoked(end: End) -> Any:
    if not end.asked:
        return end.values
    shown = end.values if isinstance(end.values, dict) else {}
    return {**shown, INTERRUPT: list(end.interrupts)}
