"""`Agent`: a model, tools and hooks in a loop, which is a graph."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from threading import Event
from typing import TYPE_CHECKING, Any, ClassVar, Final

from graphkit.compiled import CompiledGraph
from graphkit.engine.identity import call_at, call_of
from graphkit.errors import InvalidPromptError
from graphkit_checkpoint.base import BaseCheckpointSaver
from graphkit_prebuilt.arguments import (
    DEFAULT,
    Default,
    agent_id_of,
    attributes_of,
    beginning_of,
    place_of,
    register,
)
from graphkit_prebuilt.content import Message, SystemContentBlock, SystemPrompt, texts
from graphkit_prebuilt.direct import ToolCaller
from graphkit_prebuilt.halting import HaltSignal
from graphkit_prebuilt.hooks.catalogue import AgentInitializedEvent
from graphkit_prebuilt.hooks.registry import HookRegistry
from graphkit_prebuilt.host import Host
from graphkit_prebuilt.host_thread import Within
from graphkit_prebuilt.lifetime import Lifetime
from graphkit_prebuilt.limits import ENDLESS
from graphkit_prebuilt.loop.drawing import Loop
from graphkit_prebuilt.loop.program import EVERYTHING, Heard, program_of
from graphkit_prebuilt.loop.steps import Steps, awaited, blocking
from graphkit_prebuilt.managers.sliding import SlidingWindowConversationManager
from graphkit_prebuilt.middleware.registry import MiddlewareRegistry
from graphkit_prebuilt.models.model import Model
from graphkit_prebuilt.models.resolve import resolve_model
from graphkit_prebuilt.multiagent.graph_node import AgentNode
from graphkit_prebuilt.plugins import Plugin, attach
from graphkit_prebuilt.printing import CallbackHandler, PrintingCallbackHandler, check_handler
from graphkit_prebuilt.prompts import AgentInput, read_prompt
from graphkit_prebuilt.request import AgentRequest
from graphkit_prebuilt.result import AgentResult
from graphkit_prebuilt.resuming import ResumeRequest
from graphkit_prebuilt.retry import ModelRetryStrategy
from graphkit_prebuilt.snapshots import Snapshots
from graphkit_prebuilt.state import AgentState
from graphkit_prebuilt.structured import OutputTool, ask_for
from graphkit_prebuilt.thread import AgentThread
from graphkit_prebuilt.threads import Threads
from graphkit_prebuilt.tools.agents import AgentAsTool
from graphkit_prebuilt.tools.box import ToolRegistry
from graphkit_prebuilt.tools.executors import ConcurrentToolExecutor, ToolExecutor
from graphkit_prebuilt.tools.requests import RequestTool

if TYPE_CHECKING:
    from pydantic import BaseModel

    from graphkit_prebuilt.hooks.event import BaseHookEvent

DEFAULT_NAME: Final = "graphkit agent"


class Agent(Host[AgentThread], Snapshots, Lifetime):
    """A model that answers prompts, calling tools until it has what it needs; a compiled graph underneath.

    `agent(prompt)` runs one request to its end: the model's last answer, or questions of hooks and tools, which the
    next call answers. One object serves any number of conversations at the same time: `thread_id=` names one, and
    without it there is the agent's own. What is said is kept by the `session_manager`, by the `checkpointer`, or
    in this process.

    `model` is a `Model`, a LangChain chat model, or "provider:name"; without one it is `Agent.default_model`, else
    what the environment variable `GRAPHKIT_MODEL` names; calling an agent that has none raises `ValueError`. `messages`
    and `state` are what a new conversation begins with. `tools` are `@tool` functions, `AgentTool`s, `ToolProvider`s,
    modules, agents, and lists of them. `callback_handler` is called with each dict event (default: prints the text;
    None: nothing). `hooks` are providers or annotated callbacks. `retry_strategy=None` retries nothing.
    `trace_attributes` are stored as metadata with each checkpoint. The events, in order: see `graphkit.hooks`.

    Raises `ValueError` and `TypeError` naming what cannot be used. Behaviour and names: Strands' `Agent`.
    """

    default_model: ClassVar[Any] = None
    """The model of agents that are made without one."""

    def __init__(
        self,
        model: Any = None,
        messages: list[Message] | None = None,
        tools: Iterable[Any] | None = None,
        system_prompt: SystemPrompt = None,
        structured_output_model: type[BaseModel] | None = None,
        callback_handler: CallbackHandler | Default | None = DEFAULT,
        conversation_manager: Any = None,
        record_direct_tool_call: bool = True,
        load_tools_from_directory: bool = False,
        trace_attributes: Mapping[str, Any] | None = None,
        *,
        agent_id: str | None = None,
        id: str | None = None,
        name: str | None = None,
        description: str | None = None,
        state: Mapping[str, Any] | AgentState | None = None,
        plugins: Sequence[Plugin] | None = None,
        hooks: Sequence[Any] | None = None,
        session_manager: Any = None,
        structured_output_prompt: str | None = None,
        tool_executor: ToolExecutor | None = None,
        retry_strategy: Any = DEFAULT,
        checkpointer: BaseCheckpointSaver | None = None,
        store: Any = None,
    ) -> None:
        if load_tools_from_directory:
            raise NotImplementedError(
                "load_tools_from_directory: no folder is watched; import the tools and pass them: Agent(tools=[...])"
            )
        self.agent_id = agent_id_of(agent_id, id)
        self.name = name or DEFAULT_NAME
        self.description = description
        self.model = model
        self.system_prompt = system_prompt
        self.structured_output_model = structured_output_model
        if structured_output_model is not None:
            OutputTool(structured_output_model)
        self.structured_output_prompt = structured_output_prompt
        self.callback_handler = callback_handler
        self.record_direct_tool_call = record_direct_tool_call
        self.trace_attributes = attributes_of(trace_attributes)
        self.tool_executor = ConcurrentToolExecutor() if tool_executor is None else tool_executor
        self.hooks = HookRegistry()
        self.tool_registry = ToolRegistry(self.hooks)
        self.tool_registry.process_tools(tools or ())
        self.store = store
        self.session_manager = session_manager
        self.saver, self._thread_id = place_of(self, session_manager, checkpointer)
        self._graphs: dict[tuple[Heard, bool, bool], CompiledGraph] = {}
        self.threads = Threads(AgentThread, self)
        self.begins_with = beginning_of(messages, state)
        self.conversation_manager = (
            SlidingWindowConversationManager() if conversation_manager is None else conversation_manager
        )
        self.retry_strategy = ModelRetryStrategy() if retry_strategy is DEFAULT else retry_strategy
        self.middleware = MiddlewareRegistry()
        for provider in (self.conversation_manager, self.retry_strategy):
            if provider is not None:
                self.hooks.add_hook(provider)
        if hasattr(session_manager, "register_hooks"):
            self.hooks.add_hook(session_manager)
        for hook in hooks or ():
            register(self.hooks, hook)
        self.plugins: dict[str, Plugin] = {}
        attach(self, plugins or (), self.plugins)
        self._initialized()

    def _initialized(self) -> None:
        event = AgentInitializedEvent(self)
        for entry in self.hooks.of(AgentInitializedEvent):
            try:
                returned = entry.callback(event)
            except HaltSignal as signal:
                returned = signal
            if isinstance(returned, HaltSignal):
                raise RuntimeError(
                    f"{entry.callback!r} halts ({returned.stop_reason!r}) for AgentInitializedEvent: nothing runs yet"
                ) from returned
            if inspect.isawaitable(returned):
                if inspect.iscoroutine(returned):
                    returned.close()
                raise ValueError(
                    f"{entry.callback!r} gave an awaitable for AgentInitializedEvent, which fires in a constructor"
                )

    def __repr__(self) -> str:
        return f"Agent(agent_id={self.agent_id!r}, name={self.name!r}, tools={self.tool_names})"

    # What it is

    @property
    def id(self) -> str:
        """`agent_id`."""
        return self.agent_id

    @property
    def model(self) -> Model:
        """Whom the agent asks; may be set to another, from the next call of it on."""
        return self._model

    @model.setter
    def model(self, model: Any) -> None:
        self._model = resolve_model(model if model is not None else type(self).default_model)

    @property
    def system_prompt(self) -> str | None:
        """The text that the model is told before all messages, from its next call on; None if there is none. May be set
        to a text or to blocks."""
        return "\n".join(texts(self._system_prompt)) or None

    @system_prompt.setter
    def system_prompt(self, prompt: SystemPrompt) -> None:
        blocks: Any = [{"text": prompt}] if isinstance(prompt, str) and prompt else prompt or []
        if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
            raise TypeError(f"system_prompt must be a text or a list of blocks, not {prompt!r:.100}")
        self._system_prompt: list[SystemContentBlock] = list(blocks)

    @property
    def system_prompt_content(self) -> list[SystemContentBlock] | None:
        """The blocks of the system prompt, with the marks of caches for instance; None if there are none."""
        return list(self._system_prompt) or None

    @property
    def callback_handler(self) -> CallbackHandler | None:
        """What is called with the dict events of each request."""
        return self._callback_handler

    @callback_handler.setter
    def callback_handler(self, handler: CallbackHandler | Default | None) -> None:
        if isinstance(handler, Default):
            handler = PrintingCallbackHandler()
        self._callback_handler = check_handler(handler)

    @property
    def tool_executor(self) -> ToolExecutor:
        """How the calls of one message run."""
        return self._tool_executor

    @tool_executor.setter
    def tool_executor(self, executor: ToolExecutor) -> None:
        if not isinstance(executor, ToolExecutor):
            raise TypeError(f"tool_executor must be a ToolExecutor, not {executor!r:.100}")
        self._tool_executor = executor

    @property
    def tool_names(self) -> list[str]:
        """What the model calls the tools, in the order in which they were added."""
        return list(self.tool_registry.registry)

    @property
    def tool(self) -> ToolCaller:
        """Calls a tool directly: `agent.tool.name(**input)`."""
        return ToolCaller(self)

    def add_middleware(self, stage_or_phase: Any, handler: Any) -> None:
        """Wrap a stage of the loop: `InvokeModelStage`, `ExecuteToolStage` or `ExecuteToolsStage`, or take part in its
        `Input`, `Wrap` (the stage itself) or `Output`.

        A wrap is a generator, `def wrap(context, next): result = yield from next(context); return result`; what it may
        yield of its own is an event, to be shown, and an awaitable, to be waited for. Or it is an async generator:
        `async for event in next(context): yield event`, whose last event is the result. It may change what goes in
        (`context.replace(...)`), what comes out, go in more than once, or not at all, and ask (`context.interrupt`).
        The order is that of `MiddlewareRegistry.add`, which also says what is raised. Behaviour: Strands'.
        """
        self.middleware.add(stage_or_phase, handler, plugin=self.hooks.owner)

    # A request

    def __call__(self, prompt: AgentInput = None, **options: Any) -> AgentResult:
        """Run a request to its end. `options` are those of `request.CallOptions`; any other keyword is put into
        `invocation_state`.

        `prompt` is a text, content blocks, messages; the answers to open questions, as `interruptResponse` blocks or
        `Command(resume=...)`; or None, to go on with what there is. Raises, before anything is stored or fired,
        `InvalidPromptError` for anything else and for a new prompt while questions are open,
        `NoPendingInterruptError`, `UnknownInterruptError`, `AlreadyAnsweredError`, and `ConcurrencyException` while
        another request runs on the thread. What a model or a hook raises comes as it is; the turn can be gone on
        with by `agent()`. `MaxTokensReachedException` and `StructuredOutputException` are raised when the turn is at
        rest.
        """
        return self._request(prompt, options).run()

    invoke = __call__

    async def invoke_async(self, prompt: AgentInput = None, **options: Any) -> AgentResult:
        """`agent(prompt)` on the running event loop."""
        return await self._request(prompt, options).arun()

    def stream(self, prompt: AgentInput = None, **options: Any) -> Iterator[BaseHookEvent]:
        """Run a request and yield its events as they fire: the same, and in the same order, as a callback of all
        events hears (none if nothing happens, since it only has its questions again).

        Closing the iterator ends the request. Raises as `agent(prompt)`: at once for what it was given, else when
        it is read.
        """
        return self._request(prompt, options, live=True).events()

    def astream(self, prompt: AgentInput = None, **options: Any) -> AsyncIterator[BaseHookEvent]:
        """`stream` on the running event loop."""
        return self._request(prompt, options, live=True).aevents()

    def stream_async(self, prompt: AgentInput = None, **options: Any) -> AsyncIterator[dict[str, Any]]:
        """Run a request on the running event loop and yield the dict events of Strands, the last of them
        `{"result": AgentResult}`; see `streams.DictStream`."""
        return self._request(prompt, options, live=True).dicts()

    def resume(self, plugin_name: str | None = None, data: Any = None, **options: Any) -> AgentResult:
        """Go on with the turn that a plugin has halted, as it directs: `plugin.on_resume(agent, data)` returns a
        `ResumeDirective`, then everything that it has halted runs again, and may halt again. Without a name, what
        halted that belongs to no plugin runs again.

        `options` as for `agent(prompt)`. Raises, before anything is stored: `NotHaltedError` if the plugin has halted
        nothing, or for good; `UnknownPluginError` if the agent does not have it; `InvalidDirectiveError` for a
        directive that cannot be followed, one with results of calls that do not exist for instance;
        `HaltedTwiceError` if it halts; and what `on_resume` raises. The thread stays halted, and can be resumed.
        """
        return ResumeRequest(self, plugin_name, data, options).run()

    async def resume_async(
        self, plugin_name: str | None = None, data: Any = None, **options: Any
    ) -> AgentResult:
        """`agent.resume(plugin_name, data)` on the running event loop."""
        return await ResumeRequest(self, plugin_name, data, options).arun()

    def _request(self, prompt: AgentInput, options: dict[str, Any], live: bool = False) -> AgentRequest:
        return AgentRequest(self, prompt, options, live)

    def structured_output(self, output_model: type[BaseModel], prompt: AgentInput = None) -> Any:
        """The model's answer to the conversation and `prompt` as an instance of a pydantic class. Neither is added
        to the conversation, and no tool is called."""
        return blocking(self._ask_for(output_model, prompt))

    async def structured_output_async(self, output_model: type[BaseModel], prompt: AgentInput = None) -> Any:
        """`structured_output` on the running event loop."""
        return await awaited(self._ask_for(output_model, prompt))

    def _ask_for(self, output_model: Any, prompt: AgentInput) -> Steps[Any]:
        given = read_prompt(prompt)
        if given.kind == "answers":
            raise InvalidPromptError("structured_output() takes a prompt, and was given answers to questions")
        messages = [*self.messages, *given.messages]
        return ask_for(self.model, output_model, messages, self.system_prompt)

    # As a part of something

    def as_tool(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        preserve_context: bool = False,
        delegate: bool = False,
    ) -> AgentAsTool:
        """This agent as a tool of another one; see `AgentAsTool`. Its name and description are the agent's own
        unless given; `tools=[agent]` means `agent.as_tool()`. With `delegate` its answer ends the turn.

        Raises `InvalidToolUseNameException` for a name that a model cannot call a tool by.
        """
        return AgentAsTool(self, name or self.name, description, preserve_context, delegate)

    def as_node(
        self,
        *,
        prompt: Callable[[Any], AgentInput] | None = None,
        update: Callable[[AgentResult], Any] | None = None,
        preserve_context: bool = False,
    ) -> AgentNode:
        """This agent as a node of a `StateGraph`; see `AgentNode`. `add_node(name, agent)` means `agent.as_node()`."""
        return AgentNode(self, prompt, update, preserve_context)

    # Its conversations

    @property
    def graph(self) -> CompiledGraph:
        """The agent as a graph on its saver: to look at threads, to draw it, for breakpoints and forks. Inside a task
        of another graph it runs as a part of that, as any graph does."""
        return self._graph(EVERYTHING, apart=False)

    def graph_for(self, heard: Heard) -> CompiledGraph:
        """The graph for a request: in the variant that does no more than somebody hears, and always on the agent's own
        saver, whatever is around it."""
        return self._graph(heard, apart=True)

    def _graph(self, heard: Heard, apart: bool) -> CompiledGraph:
        key = heard, self._tool_executor.in_order, apart
        graph = self._graphs.get(key)
        if graph is None:
            graph = self._graphs[key] = CompiledGraph(
                program_of(self, heard, self._tool_executor.in_order),
                builder=Loop(),
                checkpointer=self.saver,
                store=self.store,
                recursion_limit=ENDLESS,
                apart=apart,
            )
        return graph

    @property
    def messages(self) -> list[Message]:
        """The conversation: of the request that runs here, else the agent's own. May be changed in place, and set."""
        return self._here.messages

    @messages.setter
    def messages(self, messages: list[Message]) -> None:
        self._here.messages = messages

    @property
    def state(self) -> AgentState:
        """What is kept beside the conversation, by key; no model sees it. May be set to a dict."""
        return self._here.state

    @state.setter
    def state(self, state: Any) -> None:
        self._here.state = state

    app_state = state

    @property
    def cancel_signal(self) -> Event:
        """What is set when the request that runs here, else the one of the agent's own conversation, or its next one,
        is to end: to be looked at, and set by `cancel`."""
        return self._here.cancel_signal

    def cancel(self, message: str | None = None, *, after_current_tools: bool = False) -> None:
        """End the request that runs here, else the one of the agent's own conversation, or its next one, at the
        next place where that leaves the conversation complete: its result has the stop reason "cancelled". `message`
        is then what the agent says last. With `after_current_tools` the calls of tools that the model has made, if it
        has, run to their end; a request without them is not ended."""
        self._here.cancel(message, after_current_tools=after_current_tools)

    def thread_within(self, thread_id: str, within: Within) -> AgentThread:
        """The conversation as it rests inside of the thread of what is around it."""
        return AgentThread(self, thread_id, within)

    def member_in(self, part: str) -> Any:
        """The agent or orchestrator that runs, as a tool, in this part of a namespace; None for any other."""
        key = part.split(":")[-1]
        tools = [tool for tool in self.tool_registry.registry.values() if isinstance(tool, RequestTool)]
        names = [call_at(key)[1].name] if key.count("-") == 2 else []
        return next((tool.target for tool in tools if call_of(tool.tool_name, "").name in names), None)
