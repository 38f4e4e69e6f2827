"""The seed's samples on tool calls (L8, L9), with the imports changed and nothing else.

Their model is asked over HTTP by the real client; the server is a local one. The wrapper of the seed is LangChain's
code; the ready-made one stands beside it.
"""

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("pydantic_ai")
pytest.importorskip("langchain_core")

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langchain_core.tools import tool as create_tool

from graphkit.checkpoint.memory import InMemorySaver
from graphkit.prebuilt import add_human_in_the_loop as ready_made
from graphkit.prebuilt import create_react_agent
from graphkit.prebuilt.interrupt import HumanInterrupt, HumanInterruptConfig
from graphkit.types import Command, interrupt
from tests.agents.llm_server import LLMServer, Reply, Serve
from tests.conftest import Runner
from tests.prebuilt.conftest import results


def booking(serve: Serve) -> LLMServer:
    return serve(
        Reply(tools=[("book_hotel", {"hotel_name": "McKittrick hotel"}, "call_1")]),
        Reply(text="It is booked."),
    )


class Test_interrupt_in_a_tool:
    def build(self) -> Any:
        # An example of a sensitive tool that requires human review / approval
        def book_hotel(hotel_name: str) -> str:
            """Book a hotel"""
            response = interrupt(
                f"Trying to call `book_hotel` with args {{'hotel_name': {hotel_name}}}. "
                "Please approve or suggest edits."
            )
            if response["type"] == "accept":
                pass
            elif response["type"] == "edit":
                hotel_name = response["args"]["hotel_name"]
            else:
                raise ValueError(f"Unknown response type: {response['type']}")
            return f"Successfully booked a stay at {hotel_name}."

        checkpointer = InMemorySaver()

        return create_react_agent(
            model="anthropic:claude-3-5-sonnet-latest",
            tools=[book_hotel],
            checkpointer=checkpointer,
        )

    @pytest.mark.parametrize(
        ("answer", "hotel"),
        [
            ({"type": "accept"}, "McKittrick hotel"),
            ({"type": "edit", "args": {"hotel_name": "McKittrick Hotel"}}, "McKittrick Hotel"),
        ],
    )
    def test_accept_and_edit(self, serve: Serve, runner: Runner, answer: Any, hotel: str) -> None:
        server = booking(serve)
        agent = self.build()
        config: Any = {"configurable": {"thread_id": "1"}}

        chunks = runner.stream(
            agent, {"messages": [{"role": "user", "content": "book a stay at McKittrick hotel"}]}, config
        )
        assert [list(chunk) for chunk in chunks] == [["agent"], ["__interrupt__"]]
        assert "'hotel_name': McKittrick hotel" in chunks[1]["__interrupt__"][0].value

        chunks = runner.stream(agent, Command(resume=answer), config)
        assert [list(chunk) for chunk in chunks] == [["tools"], ["agent"]]
        assert results(chunks[0]["tools"]) == [f"Successfully booked a stay at {hotel}."]
        assert chunks[1]["agent"]["messages"][0].content == "It is booked."
        assert len(server.seen) == 2  # the model was not asked again for the resume

    def test_reject(self, serve: Serve, runner: Runner) -> None:
        booking(serve)
        agent = self.build()
        config: Any = {"configurable": {"thread_id": "1"}}
        runner.invoke(agent, {"messages": [{"role": "user", "content": "book"}]}, config)
        with pytest.raises(ValueError, match="Unknown response type: reject"):
            runner.invoke(agent, Command(resume={"type": "reject"}), config)
        # The thread can go on: a new message closes the call.
        said = runner.invoke(agent, {"messages": [{"role": "user", "content": "never mind"}]}, config)
        assert said["messages"][-1].content == "It is booked."


def add_human_in_the_loop(
    tool: Callable[..., Any] | BaseTool,
    *,
    interrupt_config: HumanInterruptConfig | None = None,
) -> BaseTool:
    """Wrap a tool to support human-in-the-loop review."""
    if not isinstance(tool, BaseTool):
        tool = create_tool(tool)

    if interrupt_config is None:
        interrupt_config = {
            "allow_accept": True,
            "allow_edit": True,
            "allow_respond": True,
        }

    @create_tool(tool.name, description=tool.description, args_schema=tool.args_schema)
    def call_tool_with_interrupt(config: RunnableConfig, **tool_input: Any) -> Any:
        request: HumanInterrupt = {
            "action_request": {"action": tool.name, "args": tool_input},
            "config": interrupt_config,
            "description": "Please review the tool call",
        }
        response = interrupt([request])[0]
        # approve the tool call
        if response["type"] == "accept":
            tool_response = tool.invoke(tool_input, config)
        # update tool call args
        elif response["type"] == "edit":
            tool_input = response["args"]["args"]
            tool_response = tool.invoke(tool_input, config)
        # respond to the LLM with user feedback
        elif response["type"] == "response":
            user_feedback = response["args"]
            tool_response = user_feedback
        else:
            raise ValueError(f"Unsupported interrupt response type: {response['type']}")

        return tool_response

    return call_tool_with_interrupt


@pytest.mark.parametrize("wrap", [add_human_in_the_loop, ready_made])
@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ([{"type": "accept"}], "Successfully booked a stay at McKittrick hotel."),
        (
            [{"type": "edit", "args": {"args": {"hotel_name": "McKittrick Hotel"}}}],
            "Successfully booked a stay at McKittrick Hotel.",
        ),
        ([{"type": "response", "args": "Not this one."}], "Not this one."),
    ],
)
def test_add_interrupts_to_any_tool(
    serve: Serve, runner: Runner, wrap: Any, answer: Any, result: str
) -> None:
    server = booking(serve)
    checkpointer = InMemorySaver()

    def book_hotel(hotel_name: str) -> str:
        """Book a hotel"""
        return f"Successfully booked a stay at {hotel_name}."

    agent = create_react_agent(
        model="anthropic:claude-3-5-sonnet-latest",
        tools=[
            wrap(book_hotel),
        ],
        checkpointer=checkpointer,
    )

    config: Any = {"configurable": {"thread_id": "1"}}

    # Run the agent
    chunks = runner.stream(
        agent, {"messages": [{"role": "user", "content": "book a stay at McKittrick hotel"}]}, config
    )
    (asked,) = chunks[-1]["__interrupt__"]
    assert asked.value == [
        {
            "action_request": {"action": "book_hotel", "args": {"hotel_name": "McKittrick hotel"}},
            "config": {"allow_accept": True, "allow_edit": True, "allow_respond": True},
            "description": "Please review the tool call",
        }
    ]

    chunks = runner.stream(agent, Command(resume=answer), config)
    assert results(chunks[0]["tools"]) == [result]
    path, body = server.seen[-1]
    assert path == "/v1/messages"
    assert body["messages"][-1]["content"][0]["content"][0]["text"] == result
    (tool,) = body["tools"]
    assert (tool["name"], tool["description"]) == ("book_hotel", "Book a hotel")
    assert list(tool["input_schema"]["properties"]) == ["hotel_name"]
