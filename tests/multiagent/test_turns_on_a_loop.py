"""A turn through the blocking door whose parts are all awaited is one run on the standing loop; a plain function of the
user's never runs where a loop does."""

import asyncio
import contextvars
import threading
import traceback
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from graphkit import START, Agent, StateGraph, tool
from graphkit.drivers.session import Abandoned
from graphkit.errors import NodeTimeoutError
from graphkit.hooks import AfterNodeCallEvent, BeforeModelCallEvent
from graphkit.models import Model, ScriptedModel, ToolCall
from graphkit.multiagent import Graph, MultiAgentBase, Status, Swarm
from graphkit_checkpoint.memory import InMemorySaver
from tests.conftest import Runner
from tests.multiagent.teams import LONGER, TeamDoor, answers, order

Where = tuple[threading.Thread, asyncio.AbstractEventLoop | None]


def here() -> Where:
    """The thread, and the loop that runs in it."""
    try:
        return threading.current_thread(), asyncio.get_running_loop()
    except RuntimeError:
        return threading.current_thread(), None


class AsyncModel(Model):
    """A model as providers write them, with the answers of a `ScriptedModel`; `seen` is where it was read."""

    def __init__(self, *turns: Any, before: Callable[[], Any] | None = None) -> None:
        self.script = ScriptedModel(turns)
        self.before = before
        self.seen: list[Where] = []

    async def stream(
        self, messages: Any, tool_specs: Any = None, *args: Any, **kwargs: Any
    ) -> AsyncIterator[Any]:
        self.seen.append(here())
        if self.before is not None:
            await self.before()
        async for chunk in aiter(self.script.stream(messages, tool_specs)):
            yield chunk

    def get_config(self) -> Any:
        return {}

    def update_config(self, **model_config: Any) -> None: ...


def agent(model: Model, **options: Any) -> Agent:
    return Agent(model, callback_handler=None, **options)


def two(first: Model, second: Model, **options: Any) -> Graph:
    """Two agents side by side."""
    return Graph({"a": agent(first), "b": agent(second)}, **options)


def test_all_of_a_turn_runs_on_one_loop() -> None:
    seen: list[Where] = []

    @tool
    async def look() -> str:
        """Look."""
        seen.append(here())
        return "seen"

    async def node(task: Any) -> str:
        seen.append(here())
        return "done"

    async def is_open(state: Any) -> bool:
        seen.append(here())
        return True

    first, second = AsyncModel(ToolCall("look"), "a"), AsyncModel("b")
    inner = Graph({"c": agent(second)}, id="inner")
    team = Graph(
        {"a": agent(first, tools=[look]), "node": node, "inner": inner},
        [("a", "node", is_open), ("a", "inner")],
    )
    assert team("go").status is Status.COMPLETED
    places = [*first.seen, *second.seen, *seen]
    assert len(places) == 6 and len(set(places)) == 1
    assert places[0][1] is not None


def test_a_turn_after_a_turn_runs_on_the_same_loop() -> None:
    """So the client of a model keeps its connections."""
    model = AsyncModel("one", "two")
    team = Swarm([agent(model, name="a")])
    assert [str(team("go").results["a"].result) for _ in range(2)] == ["one\n", "two\n"]
    assert len({loop for _, loop in model.seen}) == 1


class Own(Graph):
    """A kind of the user's."""

    def conclude(self, call: Any, result: Any) -> Any:
        SEEN.append(here())
        return super().conclude(call, result)


SEEN: list[Where] = []


def looks(*args: Any, **kwargs: Any) -> Any:
    SEEN.append(here())
    return "seen"


@tool
def look() -> str:
    """Look."""
    return str(looks())


class Listed(AsyncModel):
    """A model that needs no loop."""

    def stream(self, messages: Any, tool_specs: Any = None, *args: Any, **kwargs: Any) -> Any:
        SEEN.append(here())
        return self.script.stream(messages, tool_specs)


class Derived(Agent):
    @property
    def tool_executor(self) -> Any:
        looks()
        return super().tool_executor

    @tool_executor.setter
    def tool_executor(self, executor: Any) -> None:
        self._tool_executor = executor


def hooked(team: MultiAgentBase) -> MultiAgentBase:
    team.add_hook(looks, AfterNodeCallEvent)
    return team


def wrapped(agent: Agent) -> Agent:
    def wrap(context: Any, next: Any) -> Any:
        looks()
        return (yield from next(context))

    from graphkit.middleware import InvokeModelStage

    agent.add_middleware(InvokeModelStage, wrap)
    return agent


PLAIN: dict[str, Callable[[], MultiAgentBase]] = {
    "a function as a node": lambda: Graph({"a": agent(AsyncModel("a")), "b": looks}),
    "a condition": lambda: Graph(
        {"a": agent(AsyncModel("a")), "b": agent(AsyncModel("b"))}, [("a", "b", looks)]
    ),
    "a hook of the orchestrator": lambda: hooked(Graph({"a": agent(AsyncModel("a"))})),
    "a hook of an agent": lambda: Graph({"a": agent(AsyncModel("a"), hooks=[_Provider()])}),
    "a callback handler": lambda: Graph({"a": Agent(AsyncModel("a"), callback_handler=looks)}),
    "a tool": lambda: Graph({"a": agent(AsyncModel(ToolCall("look"), "a"), tools=[look])}),
    "a model": lambda: Graph({"a": agent(Listed("a"))}),
    "middleware": lambda: Graph({"a": wrapped(agent(AsyncModel("a")))}),
    "an agent of another class": lambda: Graph({"a": Derived(AsyncModel("a"), callback_handler=None)}),
    "an orchestrator of another class": lambda: Own({"a": agent(AsyncModel("a"))}),
    "one further in": lambda: Graph({"in": hooked(Graph({"a": agent(AsyncModel("a"))}, id="inner"))}),
}


class _Provider:
    def register_hooks(self, registry: Any, **kwargs: Any) -> None:
        registry.add_callback(BeforeModelCallEvent, looks)


@pytest.mark.parametrize("what", PLAIN)
def test_a_plain_function_runs_where_no_loop_does(what: str) -> None:
    """It may block, and run a loop of its own."""
    team = PLAIN[what]()
    SEEN.clear()
    assert team("go").status is Status.COMPLETED
    assert SEEN and all(loop is None for _, loop in SEEN)


def test_models_that_block_do_so_side_by_side() -> None:
    both = threading.Barrier(2, timeout=30)

    class Blocks(Listed):
        def stream(self, *args: Any, **kwargs: Any) -> Any:
            both.wait()
            return super().stream(*args, **kwargs)

    assert two(Blocks("a"), Blocks("b"))("go").status is Status.COMPLETED


def test_a_saver_that_blocks_writes_in_no_loop() -> None:
    class Blocks(InMemorySaver):
        blocking = True

        def commit(self, commit: Any) -> None:
            SEEN.append(here())
            super().commit(commit)

    SEEN.clear()
    assert two(AsyncModel("a"), AsyncModel("b"), checkpointer=Blocks())("go").status is Status.COMPLETED
    assert SEEN and all(loop is None for _, loop in SEEN)


def test_members_wait_side_by_side(either: TeamDoor) -> None:
    met: list[int] = []

    async def meets() -> None:
        met.append(1)
        while len(met) < 2:
            await asyncio.sleep(0)

    assert (
        either(two(AsyncModel("a", before=meets), AsyncModel("b", before=meets)), "go").execution_count == 2
    )


NAME: contextvars.ContextVar[str] = contextvars.ContextVar("NAME", default="nobody")


def test_the_callers_context_is_seen_and_not_changed(either: TeamDoor) -> None:
    seen: list[str] = []

    async def looks_around() -> None:
        seen.append(NAME.get())
        NAME.set("changed")

    token = NAME.set("caller")
    try:
        either(Swarm([agent(AsyncModel("a", before=looks_around), name="a")]), "go")
        assert (seen, NAME.get()) == (["caller"], "caller")
    finally:
        NAME.reset(token)


def test_an_error_comes_without_our_frames() -> None:
    async def breaks() -> None:
        raise LookupError("broken")

    team = two(AsyncModel("a"), AsyncModel("b", before=breaks))
    with pytest.raises(LookupError, match="broken") as error:
        team("go")
    frames = [frame.f_code.co_name for frame, _ in traceback.walk_tb(error.value.__traceback__)]
    assert frames == ["test_an_error_comes_without_our_frames", "__call__", "stream", "breaks"]
    team.nodes["b"].executor.model = AsyncModel("b")
    assert order(team()) == ["a", "b"]  # what had finished does not run again


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_ends_the_turn_as_one(kind: type[BaseException]) -> None:
    async def ends() -> None:
        raise kind

    team = two(AsyncModel("a"), AsyncModel("b", before=ends))
    with pytest.raises(kind):
        team("go")
    team.nodes["b"].executor.model = AsyncModel("b")
    assert team().status is Status.COMPLETED


def test_a_node_that_takes_too_long() -> None:
    for seconds in LONGER:
        forever = asyncio.Event()
        result = two(AsyncModel("a"), AsyncModel("b", before=forever.wait), node_timeout=seconds)("go")
        if statuses_of(result)["a"] == "completed":
            break
    assert (result.status, statuses_of(result)) == (Status.FAILED, {"a": "completed", "b": "failed"})
    assert isinstance(result.results["b"].result, NodeTimeoutError)


def statuses_of(result: Any) -> dict[str, str]:
    return {key: node.status.value for key, node in result.results.items()}


def test_a_question_is_answered(either: TeamDoor) -> None:
    async def asks(event: BeforeModelCallEvent) -> None:
        if event.interrupt("may", reason="?") != "y":
            event.cancel = "no"

    asking = agent(AsyncModel("a"))
    asking.add_hook(asks)
    team = Graph({"a": asking, "b": agent(AsyncModel("b"))}, [("a", "b")])
    asked = either(team, "go")
    assert order(either(team, answers(asked))) == ["a", "b"]


def test_a_call_where_a_loop_runs() -> None:
    """It blocks that loop, as it says, and is served by another one."""
    model = AsyncModel("a")

    async def call() -> None:
        assert Swarm([agent(model, name="a")])("go").status is Status.COMPLETED
        assert model.seen[0][1] not in (None, asyncio.get_running_loop())

    asyncio.run(call())


def test_calls_in_several_threads() -> None:
    both = threading.Barrier(2, timeout=30)
    done: list[Any] = []

    def call() -> None:
        both.wait()
        done.append(two(AsyncModel("a"), AsyncModel("b"))("go").status)

    threads = [threading.Thread(target=call) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == [Status.COMPLETED] * 2


def test_a_team_that_a_tool_of_an_awaited_one_calls() -> None:
    """It is served by the loop below: no loop waits for itself."""
    inner = AsyncModel("inner")

    @tool
    async def ask() -> str:
        """Ask others."""
        return str(Swarm([agent(inner, name="c")])("go").status.value)

    outer = AsyncModel(ToolCall("ask"), "a")
    assert Swarm([agent(outer, name="a", tools=[ask])])("go").status is Status.COMPLETED
    assert inner.seen[0][1] not in (None, outer.seen[0][1])


def test_a_turn_ends_with_the_node_that_calls_it(runner: Runner) -> None:
    """As any run inside a node does; a `CancelledError` that nobody waits for would be reported by asyncio."""
    forever, ended, raised = asyncio.Event(), threading.Event(), list[type[BaseException]]()
    team = two(AsyncModel("a", before=forever.wait), AsyncModel("b", before=forever.wait))

    def call(state: Any) -> Any:
        try:
            return {"status": team("go").status}
        except BaseException as error:
            raised.append(type(error))
            raise
        finally:
            ended.set()

    graph = StateGraph(dict)
    graph.add_node("call", call, timeout=0.05)
    graph.add_edge(START, "call")
    with pytest.raises(NodeTimeoutError):
        runner.run(graph.compile(), {})
    assert ended.wait(30) and raised == [Abandoned]
    assert not team.thread().is_running
