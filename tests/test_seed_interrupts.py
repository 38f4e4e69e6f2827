"""The seed's code samples on interrupts, with the imports changed and little else.

Those that need `create_react_agent` and tools are in `tests/prebuilt/test_seed_review_tool_calls.py` (L8, L9).
"""

import operator
import uuid
from typing import Annotated, Any, Literal, TypedDict

import pytest

from graphkit.checkpoint.memory import InMemorySaver
from graphkit.constants import START
from graphkit.graph import StateGraph
from graphkit.types import Command, RunnableConfig, interrupt
from tests.conftest import Runner, Saver, in_a_row

Update = dict[str, Any]


# --- Pause using interrupt ------------------------------------------------------------------------


def test_pause_using_interrupt(runner: Runner, saver: Saver) -> None:
    class State(TypedDict):
        some_text: str

    def human_node(state: State) -> Update:
        value = interrupt({"text_to_revise": state["some_text"]})
        return {"some_text": value}

    graph_builder = StateGraph(State)
    graph_builder.add_node("human_node", human_node)
    graph_builder.add_edge(START, "human_node")
    checkpointer = saver

    graph = graph_builder.compile(checkpointer=checkpointer)

    # Run the graph until the interrupt is hit.
    config: RunnableConfig = {"configurable": {"thread_id": "some_id"}}
    result = runner.invoke(graph, {"some_text": "original text"}, config=config)
    assert [question.value for question in result["__interrupt__"]] == [{"text_to_revise": "original text"}]
    assert result["some_text"] == "original text"

    assert runner.invoke(graph, Command(resume="Edited text"), config=config) == {"some_text": "Edited text"}


def test_resume_using_the_command_primitive(runner: Runner, saver: Saver) -> None:
    class State(TypedDict, total=False):
        person: dict[str, str]

    def human_node(state: State) -> Update:
        return {"person": interrupt("Who are you?")}

    graph_builder = StateGraph(State)
    graph_builder.add_node("human_node", human_node)
    graph_builder.add_edge(START, "human_node")
    graph = graph_builder.compile(checkpointer=saver)
    thread_config: RunnableConfig = {"configurable": {"thread_id": "some_id"}}
    runner.invoke(graph, {"person": {}}, thread_config)

    # Resume graph execution by providing the user's input.
    assert runner.invoke(graph, Command(resume={"age": "25"}), thread_config) == {"person": {"age": "25"}}


# --- Resume multiple interrupts with one invocation -----------------------------------------------


def test_resume_multiple_interrupts_with_one_invocation(runner: Runner) -> None:
    class State(TypedDict):
        text_1: str
        text_2: str

    def human_node_1(state: State) -> Update:
        value = interrupt({"text_to_revise": state["text_1"]})
        return {"text_1": value}

    def human_node_2(state: State) -> Update:
        value = interrupt({"text_to_revise": state["text_2"]})
        return {"text_2": value}

    graph_builder = StateGraph(State)
    graph_builder.add_node("human_node_1", human_node_1)
    graph_builder.add_node("human_node_2", human_node_2)

    # Add both nodes in parallel from START
    graph_builder.add_edge(START, "human_node_1")
    graph_builder.add_edge(START, "human_node_2")

    checkpointer = InMemorySaver()
    graph = graph_builder.compile(checkpointer=checkpointer)

    thread_id = str(uuid.uuid4())
    config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
    runner.invoke(graph, {"text_1": "original text 1", "text_2": "original text 2"}, config=config)

    # Resume with mapping of interrupt IDs to values
    resume_map = {
        i.interrupt_id: f"edited text for {i.value['text_to_revise']}"
        for i in runner.get_state(graph, config).interrupts
    }
    assert runner.invoke(graph, Command(resume=resume_map), config=config) == {
        "text_1": "edited text for original text 1",
        "text_2": "edited text for original text 2",
    }


# --- Approve or reject ----------------------------------------------------------------------------


@pytest.mark.parametrize(("approved", "taken"), [(True, "some_node"), (False, "another_node")])
def test_approve_or_reject(runner: Runner, saver: Saver, approved: bool, taken: str) -> None:
    class State(TypedDict, total=False):
        llm_output: str
        taken: str

    def human_approval(state: State) -> Command[Literal["some_node", "another_node"]]:
        is_approved = interrupt(
            {
                "question": "Is this correct?",
                # Surface the output that should be
                # reviewed and approved by the human.
                "llm_output": state["llm_output"],
            }
        )

        if is_approved:
            return Command(goto="some_node")
        return Command(goto="another_node")

    def some_node(state: State) -> Update:
        return {"taken": "some_node"}

    def another_node(state: State) -> Update:
        return {"taken": "another_node"}

    # Add the node to the graph in an appropriate location
    # and connect it to the relevant nodes.
    graph_builder = StateGraph(State)
    graph_builder.add_node("human_approval", human_approval)
    graph_builder.add_node(some_node)
    graph_builder.add_node(another_node)
    graph_builder.add_edge(START, "human_approval")
    graph = graph_builder.compile(checkpointer=saver)

    # After running the graph and hitting the interrupt, the graph will pause.
    # Resume it with either an approval or rejection.
    thread_config: RunnableConfig = {"configurable": {"thread_id": "some_id"}}
    result = runner.invoke(graph, {"llm_output": "draft"}, config=thread_config)
    assert result["__interrupt__"][0].value == {"question": "Is this correct?", "llm_output": "draft"}

    assert runner.invoke(graph, Command(resume=approved), config=thread_config) == {
        "llm_output": "draft",
        "taken": taken,
    }


# --- Review and edit state ------------------------------------------------------------------------


def test_review_and_edit_state(runner: Runner, saver: Saver) -> None:
    class State(TypedDict):
        llm_generated_summary: str

    def human_editing(state: State) -> Update:
        result = interrupt(
            # Interrupt information to surface to the client.
            # Can be any JSON serializable value.
            {
                "task": "Review the output from the LLM and make any necessary edits.",
                "llm_generated_summary": state["llm_generated_summary"],
            }
        )

        # Update the state with the edited text
        return {"llm_generated_summary": result["edited_text"]}

    # Add the node to the graph in an appropriate location
    # and connect it to the relevant nodes.
    graph_builder = StateGraph(State)
    graph_builder.add_node("human_editing", human_editing)
    graph_builder.add_edge(START, "human_editing")
    graph = graph_builder.compile(checkpointer=saver)

    # After running the graph and hitting the interrupt, the graph will pause.
    # Resume it with the edited text.
    thread_config: RunnableConfig = {"configurable": {"thread_id": "some_id"}}
    result = runner.invoke(graph, {"llm_generated_summary": "A summary"}, config=thread_config)
    assert result["__interrupt__"][0].value["llm_generated_summary"] == "A summary"

    result = runner.invoke(graph, Command(resume={"edited_text": "The edited text"}), config=thread_config)
    assert result == {"llm_generated_summary": "The edited text"}


# --- Review tool calls: a node of our own calls the tool ------------------------------------------


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


class Messages(TypedDict):
    messages: Annotated[list[dict[str, str]], operator.add]


def tool_node(state: Messages) -> Update:
    return {"messages": [{"role": "tool", "content": book_hotel(state["messages"][-1]["content"])}]}


def agent_on(saver: Saver) -> Any:
    graph_builder = StateGraph(Messages)
    graph_builder.add_node("tools", tool_node)
    graph_builder.add_edge(START, "tools")
    return graph_builder.compile(checkpointer=saver)


HOTEL: Update = {"messages": [{"role": "user", "content": "McKittrick"}]}
QUESTION = (
    "Trying to call `book_hotel` with args {'hotel_name': McKittrick}. Please approve or suggest edits."
)


@pytest.mark.parametrize(
    ("response", "booked"),
    [
        ({"type": "accept"}, "McKittrick"),
        ({"type": "edit", "args": {"hotel_name": "McKittrick Hotel"}}, "McKittrick Hotel"),
    ],
    ids=["accept", "edit"],
)
def test_review_tool_calls(runner: Runner, saver: Saver, response: Update, booked: str) -> None:
    agent = agent_on(saver)
    config: RunnableConfig = {"configurable": {"thread_id": "1"}}

    (paused,) = runner.stream(agent, HOTEL, config)
    assert [question.value for question in paused["__interrupt__"]] == [QUESTION]

    said = {"role": "tool", "content": f"Successfully booked a stay at {booked}."}
    assert runner.stream(agent, Command(resume=response), config) == [{"tools": {"messages": [said]}}]


def test_reject_tool_calls(runner: Runner, saver: Saver) -> None:
    agent = agent_on(saver)
    config: RunnableConfig = {"configurable": {"thread_id": "1"}}
    runner.stream(agent, HOTEL, config)

    with pytest.raises(ValueError, match="Unknown response type: reject"):
        runner.stream(agent, Command(resume={"type": "reject"}), config)

    assert runner.get_state(agent, config).values == HOTEL


# --- Validate human input -------------------------------------------------------------------------


class Person(TypedDict, total=False):
    age: int


def test_validate_human_input(
    runner: Runner, saver: Saver, config: RunnableConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    def human_node(state: Person) -> Update:
        """Human node with validation."""
        question = "What is your age?"

        while True:
            answer = interrupt(question)

            # Validate answer, if the answer isn't valid ask for input again.
            if not isinstance(answer, int) or answer < 0:
                question = f"'{answer} is not a valid age. What is your age?"
                answer = None
                continue
            # If the answer is valid, we can proceed.
            break

        print(f"The human in the loop is {answer} years old.")
        return {"age": answer}

    graph_builder = StateGraph(Person)
    graph_builder.add_node("human_node", human_node)
    graph_builder.add_edge(START, "human_node")
    graph = graph_builder.compile(checkpointer=saver)

    asked = []
    result = runner.invoke(graph, {}, config)
    for answer in ("young", -3, 25):
        asked.append(result["__interrupt__"][0].value)
        result = runner.invoke(graph, Command(resume=answer), config)

    assert asked == [
        "What is your age?",
        "'young is not a valid age. What is your age?",
        "'-3 is not a valid age. What is your age?",
    ]
    assert result == {"age": 25}
    assert capsys.readouterr().out == "The human in the loop is 25 years old.\n"


# --- Debug with interrupts ------------------------------------------------------------------------


class Steps(TypedDict):
    steps: Annotated[list[str], operator.add]


def step_builder() -> Any:
    graph_builder = StateGraph(Steps)
    for name in ("node_a", "node_b", "node_c", "node_d"):
        graph_builder.add_node(name, lambda state, step=name[-1]: {"steps": [step]})
    for edge in in_a_row("node_a", "node_b", "node_c", "node_d"):
        graph_builder.add_edge(*edge)
    return graph_builder


@pytest.mark.parametrize("when", ["compile time", "run time"])
def test_debug_with_static_interrupts(runner: Runner, saver: Saver, when: str) -> None:
    static: Update = {"interrupt_before": ["node_a"], "interrupt_after": ["node_b", "node_c"]}
    compiled, run = (static, {}) if when == "compile time" else ({}, static)
    graph = step_builder().compile(checkpointer=saver, **compiled)
    thread_config: RunnableConfig = {"configurable": {"thread_id": "some_thread"}}

    # Run the graph until the breakpoint
    assert runner.invoke(graph, {"steps": []}, config=thread_config, **run) == {"steps": []}

    # Resume the graph: this will run the graph until the next breakpoint is hit.
    for reached in ("ab", "abc", "abcd"):
        assert runner.invoke(graph, None, config=thread_config, **run) == {"steps": list(reached)}
    assert runner.get_state(graph, thread_config).next == ()


# --- Considerations -------------------------------------------------------------------------------


def test_code_with_side_effects(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    calls: list[str] = []

    def human_node(state: Person) -> Update:
        """Human node with validation."""
        calls.append("before the question: runs again")
        answer = interrupt("question")
        calls.append("after the question: runs once")  # OK as it's after the interrupt
        return {"age": answer}

    graph_builder = StateGraph(Person)
    graph_builder.add_node("human_node", human_node)
    graph_builder.add_edge(START, "human_node")
    graph = graph_builder.compile(checkpointer=saver)
    runner.invoke(graph, {}, config)
    runner.invoke(graph, Command(resume=1), config)

    assert calls == ["before the question: runs again"] * 2 + ["after the question: runs once"]


@pytest.mark.parametrize("parent", ["blocking", "async"])
def test_subgraphs_called_as_functions(
    runner: Runner, saver: Saver, config: RunnableConfig, parent: str
) -> None:
    calls: list[str] = []

    def prepare(state: Person) -> Update:
        calls.append("prepare")
        return {}

    def ask(state: Person) -> Update:
        calls.append("ask")
        return {"age": interrupt("What is your age?")}

    subgraph_builder = StateGraph(Person)
    subgraph_builder.add_node("prepare", prepare)
    subgraph_builder.add_node("ask", ask)
    subgraph_builder.add_edge(START, "prepare")
    subgraph_builder.add_edge("prepare", "ask")
    subgraph = subgraph_builder.compile()

    def node_in_parent_graph(state: Person) -> Update:
        calls.append("some_code")  # <-- This will re-execute when the subgraph is resumed.
        # Invoke a subgraph as a function.
        # The subgraph contains an `interrupt` call.
        subgraph_result = subgraph.invoke({"age": 0})
        return {"age": subgraph_result["age"]}

    async def async_node_in_parent_graph(state: Person) -> Update:
        calls.append("some_code")
        subgraph_result = await subgraph.ainvoke({"age": 0})
        return {"age": subgraph_result["age"]}

    graph_builder = StateGraph(Person)
    graph_builder.add_node(
        "node_in_parent_graph", node_in_parent_graph if parent == "blocking" else async_node_in_parent_graph
    )
    graph_builder.add_edge(START, "node_in_parent_graph")
    graph = graph_builder.compile(checkpointer=saver)

    (question,) = runner.invoke(graph, {}, config)["__interrupt__"]

    assert (question.value, question.node) == ("What is your age?", "ask")
    assert question.namespace.startswith("node_in_parent_graph")
    assert runner.get_state(graph, config).next == ("node_in_parent_graph",)
    assert runner.invoke(graph, Command(resume=36), config) == {"age": 36}
    assert calls == ["some_code", "prepare", "ask", "some_code", "ask"]


def test_using_multiple_interrupts_in_a_single_node(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    def human_node(state: Steps) -> Update:
        return {"steps": [interrupt("first"), interrupt("second"), interrupt("third")]}

    graph_builder = StateGraph(Steps)
    graph_builder.add_node("human_node", human_node)
    graph_builder.add_edge(START, "human_node")
    graph = graph_builder.compile(checkpointer=saver)

    asked = []
    result = runner.invoke(graph, {"steps": []}, config)
    for answer in ("1", "2", "3"):
        asked += [question.value for question in result["__interrupt__"]]
        result = runner.invoke(graph, Command(resume=answer), config)

    assert asked == ["first", "second", "third"]
    assert result == {"steps": ["1", "2", "3"]}
