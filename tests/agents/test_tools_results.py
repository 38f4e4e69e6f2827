"""What a call of a tool comes to: the result for the model, the progress, and the exception."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from graphkit.errors import GraphInterrupt
from graphkit.tools import tool
from graphkit.types.content import TextBlock
from graphkit.types.tools import AgentTool, ToolContext, ToolResult, ToolResultBlock, ToolSpec
from graphkit_prebuilt.loop.steps import Steps
from graphkit_prebuilt.tools.tool import run_tool
from graphkit_prebuilt.tools.values import error_result, result_of
from tests.agents.colours import COLOURS


@pytest.fixture(params=COLOURS, ids=lambda colour: colour.__name__)
def take(request: pytest.FixtureRequest) -> Callable[[Steps[Any]], Any]:
    found: Callable[[Steps[Any]], Any] = request.param
    return found


Take = Callable[[Steps[Any]], Any]


def run(take: Take, made: AgentTool, progress: list[Any] | None = None, **given: Any) -> ToolResult:
    result, _ = tried(take, made, progress, **given)
    return result


def tried(
    take: Take, made: AgentTool, progress: list[Any] | None = None, **given: Any
) -> tuple[ToolResult, Exception | None]:
    def keep(value: Any) -> Steps[None]:
        if progress is not None:
            progress.append(value)
        yield from ()

    use = {"toolUseId": "t1", "name": made.tool_name, "input": given}
    answer: tuple[ToolResult, Exception | None] = take(run_tool(made, use, None, keep))
    assert answer[0]["toolUseId"] == "t1"
    return answer


def text(result: ToolResult) -> str:
    (block,) = result["content"]
    return block["text"]


# --- Values -----------------------------------------------------------------------------------------------


class Point(BaseModel):
    x: int
    where: Path = Path("/a")


@dataclass
class Size:
    width: int
    inside: list[Any] = field(default_factory=list)


class Named(StrEnum):
    A = "a"


class Shown:
    def __str__(self) -> str:
        return "shown!"


RING: list[Any] = []
RING.append(RING)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("text", "text"),
        ("", ""),
        (Named.A, "a"),
        (None, "null"),
        (True, "true"),
        (3, "3"),
        (2**70, str(2**70)),
        (1.5, "1.5"),
        (float("nan"), "NaN"),
        ({"a": [1, None]}, '{"a": [1, null]}'),
        ({"ä": "ö"}, '{"ä": "ö"}'),
        ([1, "b"], '[1, "b"]'),
        ((1, 2), "[1, 2]"),
        (Point(x=1), '{"x": 1, "where": "/a"}'),
        ([Point(x=1)], '[{"x": 1, "where": "/a"}]'),
        (Size(1, [Size(2)]), '{"width": 1, "inside": [{"width": 2, "inside": []}]}'),
        ({"when": Decimal("1.5")}, '{"when": "1.5"}'),
        (Shown(), "shown!"),
        (b"ab", "b'ab'"),
        ({1}, "{1}"),
        (RING, "[[...]]"),
        ({(1, 2): 3}, "{(1, 2): 3}"),
        ({"status": "ok"}, '{"status": "ok"}'),
        ({"content": [{"text": "q"}]}, '{"content": [{"text": "q"}]}'),
        ({"status": "shipped", "content": "a box"}, '{"status": "shipped", "content": "a box"}'),
        ([{"text": "q"}], '[{"text": "q"}]'),
    ],
)
def test_what_is_returned_is_shown_as_text(take: Take, value: Any, expected: str) -> None:
    @tool
    def give() -> Any:
        return value

    result, error = tried(take, give)
    assert (result["status"], text(result), error) == ("success", expected, None)
    assert type(text(result)) is str
    json.dumps(result)


@pytest.mark.parametrize("status", ["success", "error"])
def test_a_result_is_taken_as_it_is_with_the_calls_id(take: Take, status: str) -> None:
    content = [{"text": "E"}, {"json": {"a": 1}}, {"image": {"format": "png", "source": {"bytes": b"12"}}}]

    @tool
    def give() -> dict[str, Any]:
        return {"toolUseId": "another", "status": status, "content": content}

    result, error = tried(take, give)
    assert result == {"toolUseId": "t1", "status": status, "content": content}
    assert error is None


def test_a_result_can_be_an_object(take: Take) -> None:
    @tool
    def give() -> Any:
        return ToolResultBlock("another", "error", [TextBlock("a"), {"text": "b"}])  # type: ignore[list-item]

    assert run(take, give) == {
        "toolUseId": "t1",
        "status": "error",
        "content": [{"text": "a"}, {"text": "b"}],
    }


def test_a_result_that_hooks_change_is_not_the_tools_own() -> None:
    constant = {"status": "success", "content": [{"text": "a"}]}
    result_of(constant, "t1")["content"][0]["text"] += "!"
    assert constant == {"status": "success", "content": [{"text": "a"}]}


@pytest.mark.parametrize(
    "content", ["text", None, 5, [5], ["text"], [{}], [{"text": 5}], [{"json": object()}], {"text": "a"}]
)
def test_a_result_that_is_none_is_an_error_for_the_model(take: Take, content: Any) -> None:
    @tool
    def give() -> dict[str, Any]:
        return {"status": "success", "content": content}

    result, error = tried(take, give)
    assert result["status"] == "error"
    assert text(result).startswith("Error: the tool returned a result ")
    assert isinstance(error, ValueError)


def test_text_that_no_request_can_carry_is_mended(take: Take) -> None:
    @tool
    def give() -> Any:
        return "a\ud800b ö"

    assert text(run(take, give)) == "a?b ö"


def test_a_value_whose_text_cannot_be_made_is_an_error(take: Take) -> None:
    class Broken:
        def __str__(self) -> str:
            raise RuntimeError("no text")

    @tool
    def give() -> Any:
        return Broken()

    assert run(take, give) == error_result("t1", "no text")


# --- Errors -----------------------------------------------------------------------------------------------


class Silent(Exception):
    pass


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (RuntimeError("no"), "Error: no"),
        (Silent(), "Error: Silent"),
        (Unspeakable(), "Error: Unspeakable"),
        (KeyError("key"), "Error: 'key'"),
    ],
)
def test_what_a_tool_raises_is_an_error_for_the_model(take: Take, raised: Exception, expected: str) -> None:
    @tool
    def fail() -> None:
        raise raised

    result, error = tried(take, fail)
    assert result == {"toolUseId": "t1", "status": "error", "content": [{"text": expected}]}
    assert error is raised


def test_an_async_tool_that_raises(take: Take) -> None:
    @tool
    async def fail() -> None:
        raise RuntimeError("no")

    assert text(run(take, fail)) == "Error: no"


@pytest.mark.parametrize("ends", [GraphInterrupt(()), KeyboardInterrupt()])
def test_what_is_no_error_passes(take: Take, ends: BaseException) -> None:
    @tool
    def leave() -> None:
        raise ends

    with pytest.raises(type(ends)):
        run(take, leave)


def test_input_that_does_not_fit_is_told_field_by_field(take: Take) -> None:
    ran = []

    @tool
    def act(a: int, b: str, point: Point) -> None:
        ran.append(a)

    result, error = tried(take, act, a="z", point={"x": "y"})
    assert result["status"] == "error"
    assert text(result) == (
        "Error: invalid input for act:\n"
        "a: Input should be a valid integer, unable to parse string as an integer\n"
        "b: Field required\n"
        "point.x: Input should be a valid integer, unable to parse string as an integer"
    )
    assert isinstance(error, ValidationError)
    assert not ran


@pytest.mark.parametrize("cut", ['{"a": 1', "", None, [1]])
def test_a_tool_never_runs_with_input_that_was_no_object(take: Take, cut: Any) -> None:
    ran = []

    @tool
    def act() -> None:
        ran.append(1)

    use = {"toolUseId": "t1", "name": "act", "input": cut}
    result, error = take(run_tool(act, use))
    assert (result["status"], ran) == ("error", [])
    assert "no JSON object" in text(result)
    assert isinstance(error, ValueError)


# --- Kinds of functions -----------------------------------------------------------------------------------


@tool
def add(a: int, b: int = 1) -> int:
    return a + b


@tool
async def async_add(a: int, b: int = 1) -> int:
    await asyncio.sleep(0)
    return a + b


@tool
def counted(a: int) -> Iterator[Any]:
    yield {"at": a}
    yield a + 1


@tool
async def async_counted(a: int) -> AsyncIterator[Any]:
    yield {"at": a}
    await asyncio.sleep(0)
    yield a + 1


@tool
def handed_on(a: int) -> Any:
    return async_counted(a)


@pytest.mark.parametrize("made", [add, async_add])
def test_functions_of_both_colours(take: Take, made: Any) -> None:
    assert text(run(take, made, a=1)) == "2"


@pytest.mark.parametrize("made", [counted, async_counted, handed_on])
def test_generators_of_both_colours_show_their_progress(take: Take, made: Any) -> None:
    seen: list[Any] = []
    assert text(run(take, made, seen, a=1)) == "2"
    assert seen == [{"at": 1}, 2]


def test_what_a_generator_returns_is_the_result(take: Take) -> None:
    @tool
    def counts(a: int) -> Generator[str, None, int]:
        yield "half"
        return a + 1

    @tool(timeout=5)
    def only_returns(a: int) -> Generator[str, None, int]:
        yield from ()
        return a + 1

    seen: list[Any] = []
    assert text(run(take, counts, seen, a=1)) == text(run(take, only_returns, a=1)) == "2"
    assert seen == ["half", 2]


def test_generators_that_yield_nothing(take: Take) -> None:
    @tool
    def nothing() -> Iterator[int]:
        yield from ()

    @tool
    async def async_nothing() -> AsyncIterator[int]:
        for number in range(0):
            yield number

    assert text(run(take, nothing)) == text(run(take, async_nothing)) == "null"


def test_a_generator_that_raises_after_progress(take: Take) -> None:
    @tool
    async def breaks() -> AsyncIterator[int]:
        yield 1
        raise RuntimeError("in the middle")

    seen: list[Any] = []
    assert text(run(take, breaks, seen)) == "Error: in the middle"
    assert seen == [1]


def test_progress_is_shown_before_the_tool_goes_on(take: Take) -> None:
    order: list[Any] = []

    @tool
    def working() -> Iterator[int]:
        order.append("begins")
        yield 1
        order.append("goes on")
        yield 2

    def show(value: Any) -> Steps[None]:
        order.append(value)
        yield from ()

    take(run_tool(working, {"toolUseId": "t1", "name": "working", "input": {}}, None, show))
    assert order == ["begins", 1, "goes on", 2]


def test_a_blocking_tool_does_not_hold_the_event_loop() -> None:
    free = threading.Event()

    @tool
    def waiting() -> str:
        assert free.wait(60)
        return "done"

    async def main() -> Any:
        from graphkit_prebuilt.loop.steps import awaited

        asyncio.get_running_loop().call_soon(free.set)
        return await awaited(run_tool(waiting, {"toolUseId": "t1", "name": "waiting", "input": {}}))

    result, _ = asyncio.run(main())
    assert text(result) == "done"


# --- Time -------------------------------------------------------------------------------------------------


def hangs_in_a_thread(free: threading.Event) -> AgentTool:
    @tool(timeout=0.01)
    def hang() -> str:
        free.wait(60)
        return "too late"

    return hang


def hangs_on_a_loop(free: threading.Event) -> AgentTool:
    @tool(timeout=0.01)
    async def hang() -> str:
        await asyncio.Event().wait()
        return "too late"

    return hang


def hangs_after_progress(free: threading.Event) -> AgentTool:
    @tool(timeout=0.05)
    def hang() -> Iterator[str]:
        yield "progress"
        free.wait(60)
        yield "too late"

    return hang


def hangs_after_async_progress(free: threading.Event) -> AgentTool:
    @tool(timeout=0.05)
    async def hang() -> AsyncIterator[str]:
        yield "progress"
        await asyncio.Event().wait()
        yield "too late"

    return hang


@pytest.mark.parametrize(
    "made", [hangs_in_a_thread, hangs_on_a_loop, hangs_after_progress, hangs_after_async_progress]
)
def test_a_tool_that_hangs_is_an_error_for_the_model(take: Take, made: Any) -> None:
    free = threading.Event()
    seen: list[Any] = []
    try:
        result, error = tried(take, made(free), seen)
    finally:
        free.set()
    assert result["status"] == "error"
    assert text(result).startswith("Error: the tool did not end within its timeout of 0.0")
    assert isinstance(error, TimeoutError)
    assert seen in ([], ["progress"])


def test_a_tool_in_time_is_served_as_any_other(take: Take) -> None:
    @tool(timeout=60)
    def plain(a: int) -> int:
        return a

    @tool(timeout=60)
    async def coloured(a: int) -> int:
        return a

    @tool(timeout=60)
    def stepwise(a: int) -> Iterator[int]:
        yield 0
        yield a

    @tool(timeout=60)
    async def coloured_stepwise(a: int) -> AsyncIterator[int]:
        yield 0
        yield a

    @tool(timeout=60)
    def handing_on(a: int) -> Any:
        return coloured_stepwise(a)

    for made in (plain, coloured, stepwise, coloured_stepwise, handing_on):
        assert text(run(take, made, a=3)) == "3"


def test_a_timeout_error_of_the_tools_own_is_its_own(take: Take) -> None:
    @tool(timeout=60)
    def plain() -> None:
        raise TimeoutError("mine")

    @tool(timeout=60)
    async def coloured() -> None:
        raise TimeoutError("mine")

    assert text(run(take, plain)) == text(run(take, coloured)) == "Error: mine"


# --- Tools that are no functions --------------------------------------------------------------------------


class Custom(AgentTool):
    """What somebody writes who needs more than a function."""

    def __init__(self, *values: Any) -> None:
        self.values = values
        self.given: list[Any] = []

    @property
    def tool_name(self) -> str:
        return "custom"

    @property
    def tool_spec(self) -> ToolSpec:
        return {"name": "custom", "description": "d", "inputSchema": {"json": {"type": "object"}}}

    @property
    def tool_type(self) -> str:
        return "python"

    async def stream(
        self, tool_use: Any, invocation_state: dict[str, Any], **kwargs: Any
    ) -> AsyncIterator[Any]:
        self.given.append((tool_use, invocation_state))
        for value in self.values:
            yield value


def test_the_last_value_of_a_tools_stream_is_its_result(take: Take) -> None:
    made = Custom("progress", {"toolUseId": "t1", "status": "success", "content": [{"text": "done"}]})
    seen: list[Any] = []
    assert text(run(take, made, seen, a=1)) == "done"
    assert seen == ["progress"]
    assert text(run(take, Custom())) == "null"


def test_a_tools_stream_is_given_the_requests_own_state(take: Take) -> None:
    made, state = Custom("done"), {"connection": object()}
    use = {"toolUseId": "t1", "name": "custom", "input": {"a": 1}}
    take(run_tool(made, use, ToolContext(use, None, state)))
    ((given_use, given_state),) = made.given
    assert given_use is use and given_state is state


@pytest.mark.parametrize("made", [add, counted, async_counted])
def test_a_function_has_a_stream_too(made: Any) -> None:
    async def main() -> list[Any]:
        use = {"toolUseId": "t1", "name": made.tool_name, "input": {"a": 1}}
        return [value async for value in made.stream(use, {})]

    *progress, result = asyncio.run(main())
    assert text(result) == "2"
    assert progress == ([] if made is add else [{"at": 1}, 2])
