"""What `tools=` takes, and what becomes of names."""

from __future__ import annotations

import asyncio
import types
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
from pydantic import BaseModel, Field

from graphkit.tools import InvalidToolUseNameException, PythonAgentTool, ToolProvider, tool
from graphkit.tools.registry import ToolRegistry
from graphkit.types.tools import AgentTool, ToolContext, ToolSpec
from graphkit_prebuilt.loop.steps import Steps
from graphkit_prebuilt.tools.adapters import as_tool
from graphkit_prebuilt.tools.tool import run_tool
from tests.agents.colours import COLOURS

Take = Callable[[Steps[Any]], Any]


@pytest.fixture(params=COLOURS, ids=lambda colour: colour.__name__)
def take(request: pytest.FixtureRequest) -> Take:
    found: Take = request.param
    return found


@tool
def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


@tool(name="other-tool")
def other() -> str:
    """Do something else."""
    return "other"


class Shop:
    @tool
    def sell(self, item: str) -> str:
        """Sell something."""
        return f"sold {item}"

    @classmethod
    @tool
    def kind(cls) -> str:
        """Tell the kind."""
        return cls.__name__


def box_of(*tools: Any) -> ToolRegistry:
    box = ToolRegistry()
    box.process_tools(list(tools))
    return box


def served(
    take: Take, box: ToolRegistry, name: str, state: dict[str, Any] | None = None, **given: Any
) -> str:
    use = {"toolUseId": "t1", "name": name, "input": given}
    found = box.get(name)
    assert found is not None
    result, _ = take(run_tool(found, use, ToolContext(use, "the agent", state or {})))
    (block,) = result["content"]
    text: str = block["text"]
    return text


# --- Names ------------------------------------------------------------------------------------------------


def test_tools_are_found_by_name_in_the_order_given() -> None:
    box = ToolRegistry()
    assert box.process_tools([other, [add, (Shop().sell,)]]) == ["other-tool", "add", "sell"]
    assert list(box.registry) == ["other-tool", "add", "sell"]
    assert [spec["name"] for spec in box.get_all_tool_specs()] == ["other-tool", "add", "sell"]
    assert list(box.get_all_tools_config().values()) == box.get_all_tool_specs()
    assert list(box.get_all_tools_config()) == ["other-tool", "add", "sell"]
    assert box.get("add") is add
    strange: list[Any] = ["nope", None, ["add"], {}]
    assert [box.get(name) for name in strange] == [None] * 4


def test_the_same_tool_twice_is_one() -> None:
    shop = Shop()
    assert list(box_of(add, [add], shop.sell, shop.sell).registry) == ["add", "sell"]


def test_two_tools_of_one_name_are_refused_and_none_is_added() -> None:
    @tool(name="add")
    def another() -> None:
        """Another."""

    box = box_of(other)
    with pytest.raises(ValueError, match="two tools are named 'add' and 'add'"):
        box.process_tools([add, another])
    assert list(box.registry) == ["other-tool"]
    with pytest.raises(ValueError, match="two tools are named 'sell'"):
        box_of(Shop().sell, Shop().sell)


def test_names_that_differ_in_a_dash_are_too_alike() -> None:
    @tool(name="other_tool")
    def another() -> None:
        """Another."""

    with pytest.raises(ValueError, match="'other_tool' and 'other-tool'"):
        box_of(other, another)


def test_a_tool_is_registered_and_replaced_later() -> None:
    @tool(name="add")
    def better() -> None:
        """Add better."""

    box = box_of(other)
    with pytest.raises(ValueError, match="no tool named 'add' can be replaced"):
        box.replace(better)
    box.register_tool(add)
    box.replace(better)
    assert box.get("add") is better
    assert list(box.registry) == ["other-tool", "add"]
    with pytest.raises(ValueError, match="two tools"):
        box.register_tool(add)


# --- What is no tool --------------------------------------------------------------------------------------


def plain_function() -> None: ...


def test_a_plain_function_is_told_how_to_become_a_tool() -> None:
    with pytest.raises(TypeError, match=r"plain_function.*decorate it with @tool"):
        box_of(plain_function)


@pytest.mark.parametrize("thing", [5, "module.path", None, {"name": "x"}, Shop, object(), ToolProvider])
def test_what_is_no_tool_is_refused(thing: Any) -> None:
    with pytest.raises(TypeError, match="is no tool"):
        box_of(thing)


@pytest.mark.parametrize("tools", [add, "add", {"add": add}])
def test_tools_are_a_list(tools: Any) -> None:
    with pytest.raises(TypeError, match="tools= is a list"):
        ToolRegistry().process_tools(tools)


def test_a_method_without_its_object_is_refused() -> None:
    with pytest.raises(TypeError, match=r"'sell' is a method without its object.*obj\.sell"):
        box_of(Shop.sell)


# --- What others made -------------------------------------------------------------------------------------


def test_a_class_method_around_a_tool(take: Take) -> None:
    bound = types.MethodType(Shop.__dict__["kind"].__func__, Shop)  # as Python 3.13 binds it
    assert served(take, box_of(bound), "kind") == "Shop"
    assert served(take, box_of(Shop.kind), "kind") == "Shop"


class StrandsLike:
    """The shape of a tool that Strands made."""

    def __init__(self, name: str = "theirs") -> None:
        self.tool_name = name
        self.tool_spec = {"name": name, "description": "d", "inputSchema": {"type": "object"}}
        self.tool_type = "function"

    async def stream(
        self, tool_use: dict[str, Any], invocation_state: dict[str, Any], **kwargs: Any
    ) -> AsyncIterator[Any]:
        yield {"type": "tool_stream", "tool_stream_event": {"tool_use": tool_use, "data": "half"}}
        text = f"{tool_use['input']} {invocation_state}"
        yield {
            "type": "tool_result",
            "tool_result": {"toolUseId": "x", "status": "success", "content": [{"text": text}]},
        }


def test_a_tool_of_strands(take: Take) -> None:
    theirs = StrandsLike()
    box = box_of(theirs, theirs)
    assert box.get_all_tool_specs() == [
        {"name": "theirs", "description": "d", "inputSchema": {"json": {"type": "object"}}}
    ]
    state = {"a": 1}
    text = served(take, box, "theirs", state, x=1)
    assert text == "{'x': 1} {'agent': 'the agent', 'a': 1}"
    assert state == {"a": 1}


def test_the_progress_of_a_tool_of_strands(take: Take) -> None:
    seen: list[Any] = []

    def show(value: Any) -> Steps[None]:
        seen.append(value)
        yield from ()

    take(run_tool(as_tool(StrandsLike()), {"toolUseId": "t1", "name": "theirs", "input": {}}, None, show))
    assert seen == ["half"]


def test_a_name_of_another_s_tool_is_checked() -> None:
    with pytest.raises(InvalidToolUseNameException):
        box_of(StrandsLike("has space"))


class Query(BaseModel):
    """What to ask."""

    text: str = Field(description="the text")


class LangChainLike:
    """The shape of LangChain's `BaseTool`."""

    name = "search"
    description = "Search."
    args_schema: Any = Query
    func: Any = True
    coroutine: Any = None

    def invoke(self, input: dict[str, Any]) -> str:
        return f"found {input['text']}"

    async def ainvoke(self, input: dict[str, Any]) -> str:
        await asyncio.sleep(0)
        return f"awaited {input['text']}"


def test_a_tool_of_langchain(take: Take) -> None:
    box = box_of(LangChainLike())
    (spec,) = box.get_all_tool_specs()
    assert (spec["name"], spec["description"]) == ("search", "Search.")
    schema = spec["inputSchema"]["json"]
    assert schema["properties"] == {"text": {"type": "string", "description": "the text"}}
    assert served(take, box, "search", text="x") == "found x"


class Bare:
    """No more of the shape than it is known by."""

    name = "search"
    description = "Search."
    args_schema: Any = Query
    invoke = LangChainLike.invoke
    ainvoke = LangChainLike.ainvoke


def test_no_more_of_the_shape_of_langchain_s_tools_is_needed(take: Take) -> None:
    assert served(take, box_of(Bare()), "search", text="x") == "found x"


def test_a_tool_of_langchain_that_is_async_alone(take: Take) -> None:
    thing = LangChainLike()
    thing.func, thing.coroutine = None, True
    assert served(take, box_of(thing), "search", text="x") == "awaited x"


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "object", "properties": {"q": {}}}, {"type": "object", "properties": {"q": {}}}),
        (None, {"type": "object", "properties": {}}),
    ],
)
def test_a_tool_of_langchain_with_another_schema(schema: Any, expected: Any) -> None:
    thing = LangChainLike()
    thing.args_schema = schema
    assert as_tool(thing).tool_spec["inputSchema"] == {"json": expected}


def test_the_real_tools_of_langchain(take: Take) -> None:
    tools = pytest.importorskip("langchain_core.tools")

    @tools.tool  # type: ignore[untyped-decorator]
    def multiply(a: int, b: int) -> int:
        """Multiply."""
        return a * b

    box = box_of(multiply)
    schema = box.get_all_tool_specs()[0]["inputSchema"]["json"]
    assert schema["properties"] == {"a": {"type": "integer"}, "b": {"type": "integer"}}
    assert served(take, box, "multiply", a=2, b=3) == "6"


def module_of(**members: Any) -> types.ModuleType:
    module = types.ModuleType("some_tools")
    vars(module).update(members)
    return module


def letters(tool_use: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
    text = f"{len(tool_use['input']['word'])} {sorted(kwargs)}"
    return {"toolUseId": tool_use["toolUseId"], "status": "success", "content": [{"text": text}]}


LETTERS: ToolSpec = {
    "name": "letters",
    "description": "Count letters.",
    "inputSchema": {"json": {"type": "object", "properties": {"word": {"type": "string"}}}},
}


def test_a_module_with_a_spec(take: Take) -> None:
    box = box_of(module_of(TOOL_SPEC=LETTERS, letters=letters))
    assert box.get_all_tool_specs() == [LETTERS]
    assert box.registry["letters"].tool_type == "python"
    assert served(take, box, "letters", {"mine": 1}, word="tea") == "3 ['agent', 'mine']"
    assert PythonAgentTool("letters", LETTERS, letters).tool_spec == LETTERS


def test_a_module_with_decorated_functions() -> None:
    def local() -> None: ...

    local.__module__ = "some_tools"
    assert list(box_of(module_of(local=tool(local), add=add)).registry) == ["local"]


@pytest.mark.parametrize("members", [{}, {"add": add}, {"TOOL_SPEC": LETTERS}])
def test_a_module_without_tools_is_refused(members: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="module some_tools has"):
        box_of(module_of(**members))


class Server(ToolProvider):
    """Something that has to be asked for its tools."""

    async def load_tools(self, **kwargs: Any) -> Sequence[AgentTool]:
        await asyncio.sleep(0)
        return [add, as_tool(StrandsLike())]


class PlainServer:
    def load_tools(self) -> list[Any]:
        return [other]


def test_a_provider_is_asked_for_its_tools() -> None:
    assert list(box_of(Server(), PlainServer()).registry) == ["add", "theirs", "other-tool"]


class Counted(ToolProvider):
    """A provider that knows who has its tools."""

    def __init__(self, fails: bool = False) -> None:
        self.consumers: list[Any] = []
        self.fails = fails

    async def load_tools(self, **kwargs: Any) -> Sequence[AgentTool]:
        return [add]

    def add_consumer(self, consumer_id: Any, **kwargs: Any) -> None:
        self.consumers.append(consumer_id)

    def remove_consumer(self, consumer_id: Any, **kwargs: Any) -> None:
        self.consumers.remove(consumer_id)
        if self.fails:
            raise OSError("the line is dead")


def test_a_provider_is_told_who_has_its_tools_and_who_no_more() -> None:
    provider, plain = Counted(), PlainServer()
    one, two = box_of(provider, plain), box_of([provider])
    one.process_tools([provider])
    assert len(provider.consumers) == 2
    one.cleanup()
    one.cleanup()
    assert len(provider.consumers) == 1
    two.cleanup()
    assert provider.consumers == [] and list(two.registry) == ["add"]


def test_a_provider_whose_tools_are_refused_has_no_consumer() -> None:
    provider = Counted()
    with pytest.raises(TypeError, match="is no tool"):
        box_of(provider, 5)
    assert provider.consumers == []


def test_all_providers_are_told_although_one_fails() -> None:
    dead, alive = Counted(fails=True), Counted()
    box = box_of(dead, alive)
    with pytest.raises(OSError, match="line is dead"):
        box.cleanup()
    assert alive.consumers == []


def test_a_provider_is_asked_inside_a_loop_too() -> None:
    async def main() -> list[str]:
        return list(box_of(Server()).registry)

    assert asyncio.run(main()) == ["add", "theirs"]
