"""`MultiAgentBase`: what all orchestrators are. One is a graph whose nodes are its members."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, cast

from graphkit.compiled import CompiledGraph
from graphkit.frame import depth_below
from graphkit_checkpoint.base import BaseCheckpointSaver
from graphkit_prebuilt.arguments import attributes_of, place_of, register
from graphkit_prebuilt.content import ContentBlock
from graphkit_prebuilt.hooks.firing import fire
from graphkit_prebuilt.hooks.registry import HookRegistry
from graphkit_prebuilt.host import Host
from graphkit_prebuilt.host_thread import Within
from graphkit_prebuilt.limits import ENDLESS
from graphkit_prebuilt.loop.invocation import invocation_of
from graphkit_prebuilt.loop.steps import Steps, blocking
from graphkit_prebuilt.multiagent.describing import Members, Way
from graphkit_prebuilt.multiagent.events import MultiAgentInitializedEvent
from graphkit_prebuilt.multiagent.graph_node import TeamNode
from graphkit_prebuilt.multiagent.invocation import TeamInvocation
from graphkit_prebuilt.multiagent.nodes import Node, NodeCall, Visit
from graphkit_prebuilt.multiagent.program import program_of
from graphkit_prebuilt.multiagent.request import TeamRequest, TeamResumeRequest
from graphkit_prebuilt.multiagent.results import MultiAgentResult, NodeResult
from graphkit_prebuilt.multiagent.state import MultiAgentState
from graphkit_prebuilt.multiagent.thread import TeamThread
from graphkit_prebuilt.multiagent.turns import Choice, Turn
from graphkit_prebuilt.multiagent.waiting import only_awaits
from graphkit_prebuilt.plugins import MultiAgentPlugin, attach_to_team
from graphkit_prebuilt.state import AgentState
from graphkit_prebuilt.threads import Threads
from graphkit_prebuilt.tools.teams import TeamAsTool

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from graphkit_prebuilt.hooks.event import BaseHookEvent

    ResultT_co = TypeVar("ResultT_co", bound=MultiAgentResult, default=MultiAgentResult, covariant=True)
else:
    from typing import TypeVar

    ResultT_co = TypeVar("ResultT_co", bound=MultiAgentResult, covariant=True)

NO_NODES: Mapping[str, Node] = MappingProxyType({})


class MultiAgentBase(Host[TeamThread], Generic[ResultT_co]):
    """Several members work on one task: agents, functions, and other orchestrators.

    `team(task)` runs one turn to its end: the results of its members, or questions of hooks and of anything below them,
    which the next call answers. One object serves any number of threads at the same time: `thread_id=` names one, and
    without it there is the orchestrator's own. What happens is kept by the `session_manager`, by the `checkpointer`, or
    in this process: with the conversation of each member, which goes on from turn to turn.

    A kind of orchestrator says who is next (`choose`) and what a member is given (`input_for`); if it needs to, what
    happens around the request of an agent (`prepare`, `conclude`). One that has an `invoke_async` of its own instead is
    a node that runs by itself: as a member of another one it is executed by that, and nothing in it is stored before it
    has ended. `id` tells orchestrators of one session apart.
    `hooks` are providers or annotated callbacks. `execution_timeout` and `node_timeout` are seconds.

    Raises `ValueError` and `TypeError` naming what cannot be used. Names: Strands' `MultiAgentBase`.
    """

    default_id: ClassVar[str] = "default_team"
    result_type: ClassVar[type[MultiAgentResult]] = MultiAgentResult

    def __init__(
        self,
        nodes: Mapping[str, Node] = NO_NODES,
        *,
        id: str | None = None,
        hooks: Sequence[Any] | None = None,
        plugins: Sequence[MultiAgentPlugin] | None = None,
        session_manager: Any = None,
        checkpointer: BaseCheckpointSaver | None = None,
        store: Any = None,
        execution_timeout: float | None = None,
        node_timeout: float | None = None,
        trace_attributes: Mapping[str, Any] | None = None,
    ) -> None:
        """The last thing that the constructor of a kind calls: it fires `MultiAgentInitializedEvent`."""
        self.nodes: dict[str, Node] = dict(nodes)
        self.id = checked_id(self.default_id if id is None else id, type(self).__name__)
        self.execution_timeout = seconds(execution_timeout, "execution_timeout")
        self.node_timeout = seconds(node_timeout, "node_timeout")
        self.trace_attributes = attributes_of(trace_attributes)
        self.store = store
        self.session_manager = session_manager
        self.saver, self._thread_id = place_of(_Named(self.id), session_manager, checkpointer)
        self._graphs: dict[tuple[Any, ...], CompiledGraph] = {}
        self.threads = Threads(TeamThread, self)
        self.hooks = HookRegistry()
        if hasattr(session_manager, "register_hooks"):
            self.hooks.add_hook(session_manager)
        for hook in hooks or ():
            register(self.hooks, hook)
        self.plugins: dict[str, MultiAgentPlugin] = {}
        attach_to_team(self, plugins or (), self.plugins)
        event = MultiAgentInitializedEvent(self)
        blocking(fire(TeamInvocation(source=self), event), depth_below())

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self.id!r}, nodes={list(self.nodes)})"

    # What a kind of orchestrator says

    def choose(self, turn: Turn) -> Steps[Choice]:
        """Who is next: a generator that returns it, and yields `Call`s of user code. Asked again about the same turn it
        has to say the same."""
        raise NotImplementedError(f"there is no choose() in {type(self).__name__}, to say who is next")

    def input_for(self, visit: Visit, state: MultiAgentState) -> list[ContentBlock]:
        """What the member is given."""
        raise NotImplementedError(
            f"there is no input_for() in {type(self).__name__}, to say what a member is given"
        )

    def ways(self) -> Iterator[Way]:
        """Who may be first, and who may follow whom: to be drawn."""
        for name in self.nodes:
            yield Way("", name)
            for other in self.nodes:
                yield Way(name, other, conditional=True)

    def state_of(
        self, values: Mapping[str, Any], live: Mapping[str, NodeResult], app: AgentState
    ) -> MultiAgentState:
        """Where a turn stands by its channels, as everybody is shown it."""
        return MultiAgentState(self.nodes, values, live, app)

    def prepare(self, call: NodeCall, request: Any) -> None:
        """The request of an agent (a `NestedRequest`) is about to run in its node."""

    def conclude(self, call: NodeCall, result: NodeResult) -> Mapping[str, Any]:
        """A node has been executed, or cancelled. Returns what is kept for the rest of the turn, as `Choice.own`."""
        return {}

    # A turn

    def __call__(
        self,
        task: Any = None,
        invocation_state: dict[str, Any] | None = None,
        *,
        thread_id: str | None = None,
        **kwargs: Any,
    ) -> ResultT_co:
        """Run a turn to its end.

        `task` is a text, content blocks or messages; the answers to open questions, as `interruptResponse` blocks or
        `Command(resume=...)`; or None, to go on with what there is. `invocation_state` is the dict that all events and
        members have as theirs, this very object; it is not stored. `kwargs` are put into it.

        Raises, before anything is stored or fired, `InvalidPromptError` for anything else and for a new task while
        questions are open, `NoPendingInterruptError`, `UnknownInterruptError`, `AlreadyAnsweredError`, and
        `ConcurrencyException` while another turn runs on the thread. What a node or a hook raises comes as it is, and
        the turn can be gone on with by `team()`: nothing that has finished runs again. A limit that is reached and a
        node that takes too long raise nothing: the result has the status `FAILED`, and the reason. `team()` goes on
        with that too: a node that took too long is executed again, and a limit is looked at anew.
        """
        request = self._request(task, invocation_state, thread_id, kwargs)
        return cast(ResultT_co, request.run_on_loop() if only_awaits(self) else request.run())

    invoke = __call__

    async def invoke_async(
        self,
        task: Any = None,
        invocation_state: dict[str, Any] | None = None,
        *,
        thread_id: str | None = None,
        **kwargs: Any,
    ) -> ResultT_co:
        """`team(task)` on the running event loop."""
        return cast(ResultT_co, await self._request(task, invocation_state, thread_id, kwargs).arun())

    def stream(
        self,
        task: Any = None,
        invocation_state: dict[str, Any] | None = None,
        *,
        thread_id: str | None = None,
        **kwargs: Any,
    ) -> Iterator[BaseHookEvent]:
        """Run a turn and yield its events as they fire, those inside nodes as `NodeStreamUpdateEvent`s. Closing the
        iterator ends the turn."""
        return self._request(task, invocation_state, thread_id, kwargs, live=True).events()

    def astream(
        self,
        task: Any = None,
        invocation_state: dict[str, Any] | None = None,
        *,
        thread_id: str | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[BaseHookEvent]:
        """`stream` on the running event loop."""
        return self._request(task, invocation_state, thread_id, kwargs, live=True).aevents()

    def stream_async(
        self,
        task: Any = None,
        invocation_state: dict[str, Any] | None = None,
        *,
        thread_id: str | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[dict[str, Any]]:
        """Run a turn on the running event loop and yield the dict events of Strands; see `dicts.TeamDicts`."""
        return self._request(task, invocation_state, thread_id, kwargs, live=True).dicts()

    def resume(
        self,
        plugin_name: str | None = None,
        data: Any = None,
        invocation_state: dict[str, Any] | None = None,
        *,
        thread_id: str | None = None,
        **kwargs: Any,
    ) -> ResultT_co:
        """Go on with the turn that a plugin has halted, in the orchestrator or in members of it, at whatever depth, as
        it directs: `plugin.on_resume(halted, data)` is called for each of them that it has halted, with that agent or
        orchestrator, and returns a `ResumeDirective`; then all of them run again, and may halt again. Without a name,
        what halted that belongs to no plugin runs again.

        Raises, before anything is stored, what `Agent.resume` raises. The thread stays halted, and can be resumed.
        """
        invocation_state = _with_kwargs(invocation_state, kwargs)
        request = TeamResumeRequest(self, plugin_name, data, invocation_state, thread_id)
        return cast(ResultT_co, request.run())

    async def resume_async(
        self,
        plugin_name: str | None = None,
        data: Any = None,
        invocation_state: dict[str, Any] | None = None,
        *,
        thread_id: str | None = None,
        **kwargs: Any,
    ) -> ResultT_co:
        """`team.resume(plugin_name, data)` on the running event loop."""
        invocation_state = _with_kwargs(invocation_state, kwargs)
        request = TeamResumeRequest(self, plugin_name, data, invocation_state, thread_id)
        return cast(ResultT_co, await request.arun())

    def _request(
        self,
        task: Any,
        invocation_state: dict[str, Any] | None,
        thread_id: str | None,
        kwargs: Mapping[str, Any],
        live: bool = False,
    ) -> TeamRequest:
        return TeamRequest(self, task, _with_kwargs(invocation_state, kwargs), thread_id, live)

    # Its threads

    def thread_within(self, thread_id: str, within: Within) -> TeamThread:
        """The thread as it rests inside of the one of what is around the orchestrator."""
        return TeamThread(self, thread_id, within)

    def member_in(self, part: str) -> Any:
        """The agent or orchestrator that is the node of this part of a namespace; None for any other."""
        node = self.nodes.get(part.partition(":")[0])
        return node.executor if node is not None and hasattr(node.executor, "thread_within") else None

    @property
    def state(self) -> MultiAgentState:
        """Where the turn that runs here stands, else the orchestrator's own thread."""
        running = invocation_of(self)
        if running is not None and running.values:
            state: MultiAgentState = running.state(running.values)
            return state
        return self._here.state

    @property
    def graph(self) -> CompiledGraph:
        """The orchestrator as a graph on its saver: to look at threads and draw it, for breakpoints and forks; run with
        `{"task": ...}` it begins a turn. Inside a task of another graph it runs as a part of that, as any graph
        does."""
        return self._graph(True, True, self.saver)

    def graph_for(self, opens: bool, closes: bool) -> CompiledGraph:
        """The graph for a call: attended by what is heard, and always on the orchestrator's own saver."""
        return self._graph(opens, closes, self.saver, apart=True)

    def nested_graph(
        self, opens: bool, closes: bool, *, keeps: bool, name: str | None = None
    ) -> CompiledGraph:
        """The graph for a call inside a task of another one, where it is called `name`: by default its id."""
        return self._graph(opens, closes, True if keeps else None, admits=False, name=name)

    def _graph(
        self,
        opens: bool,
        closes: bool,
        checkpointer: Any,
        *,
        apart: bool = False,
        admits: bool = True,
        name: str | None = None,
    ) -> CompiledGraph:
        key = opens, closes, apart, admits, checkpointer is True, name, self.node_timeout
        graph = self._graphs.get(key)
        if graph is None:
            program = program_of(self, opens=opens, closes=closes, admits=admits)
            graph = self._graphs[key] = CompiledGraph(
                program if name is None else replace(program, name=name),
                builder=Members(self),
                checkpointer=checkpointer,
                store=self.store,
                recursion_limit=ENDLESS,
                apart=apart,
            )
        return graph

    # As a part of something

    def as_tool(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        preserve_context: bool = False,
        delegate: bool = False,
    ) -> TeamAsTool:
        """This orchestrator as a tool of an agent; see `TeamAsTool`. Its name is its id unless given; `tools=[team]`
        means `team.as_tool()`.

        Raises `InvalidToolUseNameException` for a name that a model cannot call a tool by.
        """
        return TeamAsTool(self, name or self.id, description, preserve_context, delegate)

    def as_node(
        self,
        *,
        prompt: Callable[[Any], Any] | None = None,
        update: Callable[[Any], Any] | None = None,
        preserve_context: bool = False,
    ) -> TeamNode:
        """This orchestrator as a node of a `StateGraph`; see `TeamNode`. `add_node(name, team)` means
        `team.as_node()`."""
        return TeamNode(self, prompt, update, preserve_context)


def _with_kwargs(invocation_state: dict[str, Any] | None, kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
    if kwargs:
        invocation_state = {} if invocation_state is None else invocation_state
        for key, value in kwargs.items():
            invocation_state.setdefault(key, value)
    return invocation_state


class _Named:
    """What a session must know of an orchestrator: its thread is named like those of agents."""

    def __init__(self, agent_id: str) -> None:
        self.agent_id = agent_id


RESERVED = ("|", ":", "[", "]", "\0", "/", "\\")


def checked_id(given: Any, what: str) -> str:
    """An id of an orchestrator or a node. Raises `ValueError`."""
    if not isinstance(given, str) or not given or len(given) > 255 or any(mark in given for mark in RESERVED):
        raise ValueError(
            f"the id of a {what} must be a text of 1 to 255 characters without NUL, '|', ':', '[', ']', '/' and "
            f"'\\', not {given!r:.300}"
        )
    if given.startswith("__") and given.endswith("__"):
        raise ValueError(f"the id {given!r} of a {what} is reserved: it begins and ends with '__'")
    return given


def seconds(given: Any, what: str) -> float | None:
    """A timeout. Raises `ValueError` unless it is a number above 0."""
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not given > 0:
        raise ValueError(f"{what} must be a number of seconds above 0, or None, not {given!r}")
    return float(given)
