"""Tools of a real MCP server: another process, over its standard streams and over streamable HTTP."""

from __future__ import annotations

import asyncio
import gc
import os
import queue
import re
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

from mcp import MCPError, StdioServerParameters, stdio_client
from mcp.types import ElicitResult

from graphkit import Agent
from graphkit.checkpoint.memory import InMemorySaver
from graphkit.errors import MCPClientInitializationError, MCPConnectionError
from graphkit.models import ScriptedModel, ToolCall
from graphkit.prebuilt import create_react_agent
from graphkit.session import SessionManager
from graphkit.tools.executors import SequentialToolExecutor
from graphkit.tools.mcp import MCPAgentTool, MCPClient
from graphkit.types import Command
from tests.conftest import response

HERE = Path(__file__).parent
Making = Callable[..., MCPClient]


def program(*arguments: str, notes: Path | None = None) -> Any:
    return stdio_client(
        StdioServerParameters(
            command=sys.executable, args=list(arguments), env={"DESK_NOTES": str(notes)} if notes else None
        )
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("desk") / "notes"


@pytest.fixture
def notes(written: Path) -> Path:
    """Where servers write down what they have done, empty."""
    written.write_text("")
    return written


@contextmanager
def serving(notes: Path, port: str = "0") -> Iterator[str]:
    """A server over streamable HTTP; its URL."""
    with subprocess.Popen(
        [sys.executable, str(HERE / "server.py"), "http", port],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "DESK_NOTES": str(notes)},
    ) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/mcp"
        process.kill()


@pytest.fixture(scope="module")
def url(written: Path) -> Iterator[str]:
    with serving(written) as url:
        yield url


@pytest.fixture
def desk(request: pytest.FixtureRequest, notes: Path) -> Iterator[Making]:
    """Makes clients of the server, and ends them. All share one server over HTTP, unless the test wants both."""
    made: list[MCPClient] = []
    url = request.getfixturevalue("url") if getattr(request, "param", "http") == "http" else None

    def make(**options: Any) -> MCPClient:
        if url is None:
            made.append(MCPClient(lambda: program(str(HERE / "server.py"), notes=notes), **options))
        else:
            made.append(MCPClient(url=url, **options))
        return made[-1]

    yield make
    for client in made:
        client.stop()


over_both = pytest.mark.parametrize("desk", ["stdio", "http"], indirect=True)


def agent_with(client: MCPClient, *turns: Any, **options: Any) -> Agent:
    return Agent(model=ScriptedModel(turns), tools=[client], callback_handler=None, **options)


def results(agent: Agent) -> list[Any]:
    return [
        block["toolResult"]
        for message in agent.messages
        for block in message["content"]
        if "toolResult" in block
    ]


def call(name: str, **given: Any) -> list[ToolCall]:
    return [ToolCall(name, given)]


# --- Tools ------------------------------------------------------------------------------------------------


@over_both
def test_the_tools_of_a_server_are_tools_of_an_agent(desk: Making) -> None:
    agent = agent_with(
        desk(), call("add", a=1, b=2), call("picture"), call("fail"), call("add", a="x"), "done"
    )
    assert str(agent("go")) == "done\n"
    added, picture, failed, misused = results(agent)
    assert (added["status"], added["content"]) == ("success", [{"text": "3"}])
    assert added["structuredContent"] == {"result": 3} and "structuredContent" not in picture
    assert picture["content"] == [
        {"text": "a dot"},
        {"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}},
    ]
    assert failed["status"] == "error" and "no such desk" in failed["content"][0]["text"]
    assert misused["status"] == "error" and "validation error" in misused["content"][0]["text"]


def test_a_client_by_hand(desk: Making) -> None:
    client = desk(prefix="desk")
    with pytest.raises(MCPClientInitializationError, match="no connection"):
        client.list_tools_sync()
    with client:
        with pytest.raises(MCPClientInitializationError, match="started already"):
            client.start()
        tools = {tool.tool_name: tool for tool in client.list_tools_sync()}
        spec = tools["desk_add"].tool_spec
        assert isinstance(tools["desk_add"], MCPAgentTool) and spec["description"] == "Add two numbers."
        assert spec["inputSchema"]["json"]["required"] == ["a", "b"]
        assert "add" in [tool.tool_name for tool in client.list_tools_sync(prefix="")]
        assert client.call_tool_sync("1", "add", {"a": 1, "b": 1}) == {
            "toolUseId": "1",
            "status": "success",
            "content": [{"text": "2"}],
            "structuredContent": {"result": 2},
        }
        assert asyncio.run(client.call_tool_async("2", "fail"))["status"] == "error"
    with pytest.raises(MCPClientInitializationError):
        client.call_tool_sync("1", "add", {})


def test_what_a_result_may_hold(desk: Making) -> None:
    """Text, pictures and bytes of text as what they are, of everything else that it is there."""
    with desk() as client:
        result: Any = client.call_tool_sync("1", "parcel", {})
    assert result["status"] == "success"
    assert result["content"] == [
        {"text": "a letter"},
        {"text": '{"a": 1}'},
        {"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}},
        {"text": "(3 bytes, application/zip)"},
        {"text": "(1 bytes, application/octet-stream)"},
        {"text": "rules: desk://rules"},
        {"text": "(audio, audio/wav)"},
    ]


def test_prompts_and_resources(desk: Making) -> None:
    client: Any = desk()
    with pytest.raises(MCPClientInitializationError, match="no connection"):
        client.list_prompts_sync()
    with client:
        (prompt,) = client.list_prompts_sync().prompts
        assert (prompt.name, prompt.description) == ("greet", "Greet somebody.")
        (message,) = client.get_prompt_sync("greet", {"name": "Ada"}).messages
        assert (message.role, message.content.text) == ("user", "Greet Ada, please.")
        (resource,) = client.list_resources_sync().resources
        (content,) = client.read_resource_sync(resource.uri).contents
        assert (str(content.uri), content.text) == ("desk://rules", "Be kind.")
        (template,) = client.list_resource_templates_sync().resource_templates
        (content,) = client.read_resource_sync(template.uri_template.format(number=3)).contents
        assert content.text == "drawer 3 is empty"
        with pytest.raises(MCPError, match="desk://no-such"):
            client.read_resource_sync("desk://no-such")


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"allowed": ["add", re.compile("^d")]}, ["add", "delete", "die"]),
        ({"allowed": ["add", re.compile("^d")], "rejected": ["die"]}, ["add", "delete"]),
        (
            {"rejected": [lambda tool: "file" in tool.tool_spec["description"]]},
            ["add", "caller", "die", "fail", "parcel", "picture"],
        ),
        ({"allowed": []}, []),
        ({}, ["add", "caller", "delete", "die", "fail", "move", "parcel", "picture"]),
    ],
    ids=["allowed", "both", "function", "none", "empty"],
)
def test_filters_choose_tools_by_their_names_at_the_server(
    desk: Making, filters: Any, found: list[str]
) -> None:
    with desk(tool_filters=filters, prefix="desk") as client:
        assert sorted(tool.mcp_tool.name for tool in client.list_tools_sync()) == found
        assert len(client.list_tools_sync(tool_filters={})) == 8
        agent = agent_with(client, "done")
        assert sorted(agent.tool_names) == [f"desk_{name}" for name in found]


@pytest.mark.parametrize(
    "filters", [{"alowed": ["add"]}, {"allowed": "add"}, {"rejected": [7]}], ids=["key", "list", "matcher"]
)
def test_filters_that_are_none(filters: Any) -> None:
    with pytest.raises(ValueError, match="tool_filters="):
        MCPClient(url="http://localhost", tool_filters=filters)


def test_names_that_no_model_can_write_are_told_as_it_can() -> None:
    with MCPClient(lambda: program(str(HERE / "garbage.py"), "names"), mode="legacy") as client:
        agent = agent_with(client, call("desk_look_up"), "done")
        assert agent.tool_names == ["desk_look_up", "l" + "o" * 63]
        agent("go")
        assert results(agent)[0]["content"] == [{"text": "desk.look/up"}]
        prefixed = client.list_tools_sync(prefix="my.desk")
        assert prefixed[0].tool_name == "my_desk_desk_look_up"


def test_all_pages_of_tools_are_listed() -> None:
    with MCPClient(lambda: program(str(HERE / "garbage.py"), "pages"), mode="legacy") as client:
        tools = client.list_tools_sync()
        assert [tool.tool_name for tool in tools] == ["break", "mend"]
        assert tools.pagination_token is None  # a program that turns the pages itself has turned the last one
        assert [tool.tool_name for tool in client.list_tools_sync("2")] == ["mend"]


def test_what_no_client_is_made_of() -> None:
    for wrong in ({}, {"transport_callable": lambda: None, "url": "http://x"}, {"url": "localhost"}):
        with pytest.raises(ValueError, match="MCPClient"):
            MCPClient(**wrong)


def test_a_react_agent_has_them_too(desk: Making) -> None:
    with desk() as client:
        agent = create_react_agent(ScriptedModel([call("add", a=2, b=2), "four"]), client.list_tools_sync())
        messages = agent.invoke({"messages": [{"role": "user", "content": "?"}]})["messages"]
    assert "4" in str(messages[-2]) and "four" in str(messages[-1])


def _call(agent: Agent, prompt: Any) -> Any:
    return agent(prompt)


def _awaited(agent: Agent, prompt: Any) -> Any:
    return asyncio.run(agent.invoke_async(prompt))


# --- Elicitation ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["delete", "move"])
def test_a_callback_answers_what_a_server_asks(desk: Making, name: str) -> None:
    asked: list[str] = []

    async def answer(context: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content={"sure": True})

    agent = agent_with(desk(elicitation_callback=answer), call(name, path="a"), "done")
    assert agent("go").stop_reason == "end_turn"
    assert asked == [f"{name.title()} a?"]
    assert results(agent)[0]["content"][0]["text"] == f"{name}d a"


@pytest.mark.parametrize(
    ("given", "text", "noted"),
    [
        ({"sure": True}, "deleted a", ["accept", "deleted"]),
        ({"action": "accept", "content": {"sure": False}}, "kept a", ["accept"]),
        (False, "kept a", ["decline"]),
        ({"action": "cancel"}, "kept a", ["cancel"]),
    ],
)
def test_a_question_of_the_server_is_one_of_the_graph(
    desk: Making, notes: Path, given: Any, text: str, noted: list[str]
) -> None:
    """It outlives the agent and the client."""
    saver, model = InMemorySaver(), ScriptedModel([call("delete", path="a"), "done"])

    def agent(client: MCPClient) -> Agent:
        return Agent(
            model=model, tools=[client], callback_handler=None, session_manager=SessionManager(saver, "one")
        )

    with desk(elicitation_callback="ask") as client:
        result = agent(client)("go")
    assert result.stop_reason == "interrupt" and result.interrupts is not None
    (question,) = result.interrupts
    assert question.reason["message"] == "Delete a?" and question.reason["mode"] == "form"
    assert question.reason["requestedSchema"]["required"] == ["sure"]
    assert notes.read_text().split() == ["asked"]
    with desk(elicitation_callback="ask") as client:
        fresh = agent(client)
        assert fresh([response(question, given)]).stop_reason == "end_turn"
    assert results(fresh)[0]["content"] == [{"text": text}]
    assert notes.read_text().split() == ["asked", "asked", *noted]


@over_both
@pytest.mark.parametrize("way", [_call, _awaited])
@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_two_calls_of_one_message_ask(desk: Making, notes: Path, mode: str, way: Callable[..., Any]) -> None:
    agent = agent_with(
        desk(elicitation_callback="ask", mode=mode),
        [ToolCall("move", {"path": "a"}), ToolCall("add", {"a": 1, "b": 2}), ToolCall("move", {"path": "b"})],
        "done",
    )
    first = way(agent, "go")
    assert [question.reason["message"] for question in first.interrupts or ()] == ["Move a?", "Move b?"]
    answers = [
        response(question, {"sure": "a?" in question.reason["message"]})
        for question in first.interrupts or ()
    ]
    way(agent, answers[::-1])
    assert [result["content"][0]["text"] for result in results(agent)] == ["moved a", "3", "left b"]


def test_an_answer_that_is_none_is_an_error_for_the_model(desk: Making, notes: Path) -> None:
    agent = agent_with(desk(elicitation_callback="ask"), call("delete", path="a"), "done")
    (question,) = agent("go").interrupts or ()
    agent([response(question, "yes")])
    assert "no answer to an elicitation" in results(agent)[0]["content"][0]["text"]
    assert "deleted" not in notes.read_text()


def test_a_react_agent_asks_too(desk: Making) -> None:
    with desk(elicitation_callback="ask") as client:
        model = ScriptedModel([call("delete", path="a"), "done"])
        agent = create_react_agent(model, client.list_tools_sync(), checkpointer=InMemorySaver())
        config: Any = {"configurable": {"thread_id": "1"}}
        (question,) = agent.invoke({"messages": [{"role": "user", "content": "?"}]}, config)["__interrupt__"]
        assert question.value["message"] == "Delete a?"
        messages = agent.invoke(Command(resume={"sure": True}), config)["messages"]
    assert "deleted a" in str(messages[-2])


def test_a_server_that_cannot_ask_over_this_connection_says_what_to_do(desk: Making) -> None:
    agent = agent_with(desk(elicitation_callback="ask", mode="auto"), call("delete", path="a"), "done")
    agent("go")
    assert "mode='legacy'" in results(agent)[0]["content"][0]["text"]


def test_nobody_is_asked_without_somebody_to_ask(desk: Making) -> None:
    agent = agent_with(desk(mode="legacy"), call("delete", path="a"), "done")
    agent("go")
    assert results(agent)[0]["status"] == "error"
    with (
        desk(elicitation_callback="ask") as client,
        pytest.raises(MCPError, match="outside of a call by an agent"),
    ):
        client.call_tool_sync("1", "delete", {"path": "a"})


# --- Servers that fail ------------------------------------------------------------------------------------


def test_a_server_that_dies_is_an_error_for_the_model(notes: Path) -> None:
    client = MCPClient(lambda: program(str(HERE / "server.py"), notes=notes))
    try:
        agent = agent_with(
            client, call("die"), call("add", a=1, b=2), "done", tool_executor=SequentialToolExecutor()
        )
        assert agent("go").stop_reason == "end_turn"
        died, added = results(agent)
        assert died["status"] == "error" and "ended the connection" in died["content"][0]["text"]
        assert added["content"] == [{"text": "3"}]  # over a new connection
    finally:
        client.stop()


def test_a_run_that_a_dying_server_has_ended_goes_on(notes: Path) -> None:
    """Where nobody makes results of errors (`ToolNode`'s default): the thread is as it was before the call."""
    model = ScriptedModel([[ToolCall("add", {"a": 1, "b": 2}), ToolCall("die", {})], "done"])
    config: Any = {"configurable": {"thread_id": "1"}}
    with MCPClient(lambda: program(str(HERE / "server.py"), notes=notes)) as client:
        agent = create_react_agent(model, client.list_tools_sync(), checkpointer=InMemorySaver())
        with pytest.raises(MCPConnectionError, match="ended the connection"):
            agent.invoke({"messages": [{"role": "user", "content": "?"}]}, config)
        assert set(agent.get_state(config).next) == {"tools"} and len(model.requests) == 1
        *_, added, died, done = agent.invoke(None, config)["messages"]
    assert [message.content for message in (added, died, done)] == ["3", "alive", "done"]
    assert len(model.requests) == 2


def test_a_server_that_died_between_question_and_answer(notes: Path) -> None:
    client = MCPClient(lambda: program(str(HERE / "server.py"), notes=notes), elicitation_callback="ask")
    try:
        agent = agent_with(client, call("delete", path="a"), "done")
        (question,) = agent("go").interrupts or ()
        with pytest.raises(MCPConnectionError, match="ended the connection"):
            client.call_tool_sync("1", "die")
        agent([response(question, {"sure": True})])
        assert results(agent)[0]["content"] == [{"text": "deleted a"}]
    finally:
        client.stop()


def test_an_http_server_that_is_gone(notes: Path) -> None:
    with serving(notes) as url, MCPClient(url=url) as client:
        agent = agent_with(client, call("die"), call("add", a=1, b=2), "done")
        assert agent("go").stop_reason == "end_turn"
    died, added = results(agent)
    assert died["status"] == added["status"] == "error"
    assert died["content"][0]["text"].startswith("Error: MCP server http://")
    assert added["content"][0]["text"].startswith("Error: no connection to MCP server http://")


def test_an_http_server_that_was_started_anew(notes: Path) -> None:
    with serving(notes) as url:
        client = MCPClient(url=url, mode="legacy")
        agent = agent_with(client, call("add", a=1, b=1), call("add", a=1, b=1), "done")
    with serving(notes, url.split(":")[2].split("/")[0]):
        assert agent("go").stop_reason == "end_turn"
        client.stop()
    forgotten, added = results(agent)
    assert "does not know this session" in forgotten["content"][0]["text"]
    assert added["content"] == [{"text": "2"}]


@pytest.mark.parametrize(
    ("kind", "message"),
    [("shape", "what is no answer"), ("silence", "timed out"), ("blocks", "no base64")],
)
def test_garbage_is_an_error_for_the_model(kind: str, message: str) -> None:
    client = MCPClient(lambda: program(str(HERE / "garbage.py"), kind), mode="legacy")
    try:
        agent = agent_with(client, call("break"), "done")
        if kind == "silence":  # not while the program starts
            client._timeout = 0.3
        assert agent("go").stop_reason == "end_turn"
        (result,) = results(agent)
        assert result["status"] == "error" and message in result["content"][0]["text"]
    finally:
        client.stop()


def test_a_connection_ends_with_the_last_agent_that_has_opened_it(desk: Making) -> None:
    client = desk()
    one, two = agent_with(client), agent_with(client)
    one.cleanup()
    assert client.call_tool_sync("1", "add", {"a": 1, "b": 1})["status"] == "success"
    two.cleanup()
    with pytest.raises(MCPClientInitializationError, match="no connection"):
        client.list_tools_sync()
    with client:  # opened by hand, and so until it is closed by hand
        agent_with(client).cleanup()
        assert client.list_tools_sync()


def test_a_connection_ends_with_its_client(url: str) -> None:
    """Nobody has stopped it, and nobody has it any more."""
    client = MCPClient(url=url)
    agent = agent_with(client)
    assert "add" in agent.tool_names
    assert client._connection is not None and client._connection._served is not None
    served = client._connection._served
    del agent, client
    gc.collect()
    assert served.exception(timeout=20) is None


def test_a_client_keeps_no_connection_that_has_ended(url: str) -> None:
    client = MCPClient(url=url)
    with client:
        ended = weakref.ref(client._connection)
    gc.collect()
    assert ended() is None


# --- What a client tells a server --------------------------------------------------------------------------


def test_headers_names_and_metadata_reach_the_server(desk: Making) -> None:
    import httpx2

    client = desk(
        headers={"x-desk": "seven"},
        auth_provider=httpx2.BasicAuth("ada", "pass"),
        application_name="tidy",
        application_version="3.1",
        meta={"who": "everybody"},
    )
    agent = agent_with(client, call("caller"), "done")
    agent("go")
    assert results(agent)[0]["content"] == [{"text": "tidy 3.1, seven, Basic YWRhOnBhc3M=, everybody"}]
    told = client.call_tool_sync("1", "caller", meta={"who": "me"})
    assert told["content"] == [{"text": "tidy 3.1, seven, Basic YWRhOnBhc3M=, me"}]
    told = asyncio.run(client.call_tool_async("2", "caller", meta={"who": "us"}))
    assert told["content"] == [{"text": "tidy 3.1, seven, Basic YWRhOnBhc3M=, us"}]


def test_progress_is_told(desk: Making) -> None:
    heard: queue.SimpleQueue[Any] = queue.SimpleQueue()

    async def told(progress: float, total: float | None, message: str | None) -> None:
        heard.put((progress, total, message))

    async def other(progress: float, total: float | None, message: str | None) -> None:
        heard.put("other")

    client = desk(progress_callback=told)
    agent = agent_with(client, call("caller"), "done")
    agent("go")
    assert heard.get(timeout=10) == (1.0, 2.0, "half")
    client.call_tool_sync("1", "caller", progress_callback=other)
    assert heard.get(timeout=10) == "other" and heard.empty()


def test_a_server_that_cannot_be_reached_may_be_left_out(caplog: pytest.LogCaptureFixture) -> None:
    client = MCPClient(url="http://127.0.0.1:1/mcp", continue_on_error=True)
    agent = agent_with(client, "done")
    assert agent.tool_names == [] and str(agent("go")) == "done\n"
    assert "no connection to MCP server http://127.0.0.1:1/mcp" in caplog.text


@pytest.mark.parametrize("option", ["headers", "auth_provider"])
def test_what_is_for_http_needs_an_url(option: str) -> None:
    given: Any = {option: {"a": "b"}}
    with pytest.raises(ValueError, match="url="):
        MCPClient(lambda: program("-c", "pass"), **given)


@pytest.mark.parametrize(
    "client",
    [
        MCPClient(lambda: program("-c", "pass")),
        MCPClient(lambda: program("-c", "print('hello'); input()"), startup_timeout=0.3),
        MCPClient(lambda: stdio_client(StdioServerParameters(command="no-such-program"))),
        MCPClient(url="http://127.0.0.1:1/mcp"),
    ],
    ids=["ends", "never answers", "not there", "no port"],
)
def test_a_server_that_cannot_be_reached(client: MCPClient) -> None:
    with pytest.raises(MCPClientInitializationError, match="no connection to MCP server"):
        agent_with(client)
