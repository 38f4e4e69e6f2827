"""Agents beside Strands: a turn of model and tool, how it grows, and a session on disk.

The model is scripted and the same for both: what it streams is a list made beforehand. Without a conversation
manager, so that both send the whole conversation each time; without a callback handler, so that nothing is printed.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from functools import cache, partial
from importlib import import_module
from itertools import count
from pathlib import Path
from statistics import mean, median
from time import perf_counter
from typing import Any

from benchmarks.agent_frameworks import AgentFramework
from benchmarks.messages import MESSAGES
from benchmarks.scenario import Sample, Scenario, Sizes, Target

Chunks = list[dict[str, Any]]

EARLY = 10
AROUND = 5
"""Requests on either side of the one that is meant."""
REQUESTS = 20
LAYERS = 10
SESSION = "bench"
USAGE = {
    "metadata": {
        "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2},
        "metrics": {"latencyMs": 1},
    }
}


def saying(text: str) -> Chunks:
    return [
        {"messageStart": {"role": "assistant"}},
        {"contentBlockStart": {"start": {}}},
        {"contentBlockDelta": {"delta": {"text": text}}},
        {"contentBlockStop": {}},
        {"messageStop": {"stopReason": "end_turn"}},
        USAGE,
    ]


def calling(name: str, number: int, given: dict[str, Any]) -> Chunks:
    return [
        {"messageStart": {"role": "assistant"}},
        {"contentBlockStart": {"start": {"toolUse": {"name": name, "toolUseId": f"call-{number}"}}}},
        {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(given)}}}},
        {"contentBlockStop": {}},
        {"messageStop": {"stopReason": "tool_use"}},
        USAGE,
    ]


def scripted(framework: AgentFramework, answer: Callable[[int], Chunks], loopless: bool = False) -> Any:
    """A model that streams `answer(0)`, `answer(1)`, …: an async generator, as Strands must have it.

    `loopless`: graphkit's streams a plain list instead, which can be read without an event loop.
    """
    return model_class(framework.Model, loopless and framework.name == "graphkit")(answer)


@cache
def model_class(base: Any, loopless: bool) -> Callable[[Callable[[int], Chunks]], Any]:
    """The class of scripted models, made once as a program would: a new one for each agent would defeat the
    interpreter's caches, which belong to types."""

    class Scripted(base):  # type: ignore[misc]
        def __init__(self, answer: Callable[[int], Chunks]) -> None:
            self.answer = answer
            self.calls = count()

        def get_config(self) -> dict[str, Any]:
            return {}

        def update_config(self, **config: Any) -> None:
            pass

        async def structured_output(self, *args: Any, **kwargs: Any) -> AsyncIterator[dict[str, Any]]:
            raise NotImplementedError
            yield

        async def stream(self, *args: Any, **kwargs: Any) -> AsyncIterator[dict[str, Any]]:
            for chunk in self.answer(next(self.calls)):
                yield chunk

    class Loopless(Scripted):
        def stream(self, *args: Any, **kwargs: Any) -> Chunks:  # type: ignore[override]
            return self.answer(next(self.calls))

    return Loopless if loopless else Scripted


def new_agent(framework: AgentFramework, model: Any, tool: Callable[..., Any], session: Any = None) -> Any:
    return framework.Agent(
        model=model,
        tools=[framework.tool(tool)],
        callback_handler=None,
        conversation_manager=framework.NullConversationManager(),
        session_manager=session,
    )


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def one_call_each(number: int) -> Chunks:
    """A call of the tool, then a text, and so on."""
    return saying("done") if number % 2 else calling("add", number, {"a": 1, "b": 2})


def seconds_of_request(agent: Any) -> float:
    started = perf_counter()
    result = agent("go")
    elapsed = perf_counter() - started
    assert result.stop_reason == "end_turn"
    return elapsed


def turn(framework: AgentFramework, saver: Any, loopless: bool = False) -> Sample:
    """Seconds of one request of a fresh agent: model, tool, model."""

    def sample() -> float:
        agent = new_agent(framework, scripted(framework, one_call_each, loopless), add)
        elapsed = seconds_of_request(agent)
        assert len(agent.messages) == 4
        return elapsed

    return sample


def turn_of_conversation(framework: AgentFramework, saver: Any, loopless: bool = False) -> Sample:
    """The same of an agent that has had requests before: as in `growth_with_requests`, those around the tenth."""

    def sample() -> float:
        agent = new_agent(framework, scripted(framework, one_call_each, loopless), add)
        taken = [seconds_of_request(agent) for _ in range(EARLY + AROUND)]
        return median(taken[EARLY - AROUND :])

    return sample


def turn_awaited(framework: AgentFramework, saver: Any) -> Sample:
    """The same in a running event loop. A sample is several requests, so that starting the loop is no part of it."""

    async def seconds() -> float:
        agent = new_agent(framework, scripted(framework, one_call_each), add)
        started = perf_counter()
        await agent.invoke_async("go")
        elapsed = perf_counter() - started
        assert len(agent.messages) == 4
        return elapsed

    async def of_several() -> float:
        return mean([await seconds() for _ in range(REQUESTS)])

    return lambda: asyncio.run(of_several())


def growth_with_requests(framework: AgentFramework, saver: Any, late: int) -> Sample:
    """How many times more a late request of an agent takes than the tenth."""

    def sample() -> float:
        agent = new_agent(framework, scripted(framework, one_call_each), add)
        taken = [seconds_of_request(agent) for _ in range(late + AROUND)]
        early = median(taken[EARLY - AROUND : EARLY + AROUND])
        return median(taken[late - AROUND : late + AROUND]) / early

    return sample


# Middleware


def passes_on(context: Any, next: Any) -> Any:
    result = yield from next(context)
    return result


async def passes_on_awaited(context: Any, next: Any) -> AsyncIterator[Any]:
    async for event in next(context):
        yield event


def growth_with_middleware(framework: AgentFramework, saver: Any, layers: int) -> Sample:
    """How many times more a request takes with so many middlewares that pass on, around model and tool each."""
    middleware = import_module(f"{framework.name.lower()}.middleware")
    layer = passes_on if framework.name == "graphkit" else passes_on_awaited

    def seconds(layers: int) -> float:
        agent = new_agent(framework, scripted(framework, one_call_each), add)
        for _ in range(layers):
            agent.add_middleware(middleware.InvokeModelStage, layer)
            agent.add_middleware(middleware.ExecuteToolStage, layer)
        return seconds_of_request(agent)

    def sample() -> float:
        pairs = [(seconds(layers), seconds(0)) for _ in range(REQUESTS)]
        return median(taken for taken, _ in pairs) / median(bare for _, bare in pairs)

    return sample


# Sessions


def look(text: str) -> str:
    """Look something up."""
    return MESSAGES[1]["content"]


def words_of_1_kb(number: int) -> Chunks:
    text = MESSAGES[number]["content"]
    return saying(text) if number % 2 else calling("look", number, {"text": text})


def agent_of_session(framework: AgentFramework, folder: Path) -> tuple[Any, Any]:
    """A fresh agent with the session in `folder`, and its session manager."""
    session = framework.FileSessionManager(session_id=SESSION, storage_dir=str(folder))
    return new_agent(framework, scripted(framework, words_of_1_kb), look, session), session


def write_session(framework: AgentFramework, folder: Path, turns: int) -> int:
    """Write so many turns of four messages of 1 KB. Returns the bytes of the messages as JSON."""
    agent, session = agent_of_session(framework, folder)
    for number in range(turns):
        agent(MESSAGES[number]["content"])
    messages = list(agent.messages)
    assert len(messages) == 4 * turns
    framework.close(session)
    return len(json.dumps(messages))


def size_of_session(framework: AgentFramework, folder: Path, turns: int) -> Sample:
    """Bytes in files, once the session is closed, for each byte of the conversation as JSON."""

    def sample() -> float:
        as_json = write_session(framework, folder, turns)
        return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / as_json

    return sample


def restore_session(framework: AgentFramework, folder: Path, turns: int) -> Sample:
    """Seconds until a fresh agent has the messages of a session that this process has not seen before."""
    original = folder / "original"
    write_session(framework, original, turns)

    def sample() -> float:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            copied = shutil.copytree(original, Path(place) / "copied")
            started = perf_counter()
            agent, session = agent_of_session(framework, copied)
            found = len(agent.messages)
            elapsed = perf_counter() - started
            framework.close(session)
        assert found == 4 * turns
        return elapsed

    return sample


def rows(sizes: Sizes) -> list[Scenario]:
    messages = 4 * sizes.session_turns
    return [
        Scenario(
            "agent: one model → tool turn, scripted model, in memory",
            "µs",
            Target("ratio", 6),
            turn,
            peer="Strands",
        ),
        Scenario(
            "agent: the same, graphkit's model needs no event loop",
            "µs",
            None,
            partial(turn, loopless=True),
            peer="Strands",
        ),
        Scenario(
            f"agent: the same, request {EARLY} of a conversation",
            "µs",
            Target("ratio", 6),
            turn_of_conversation,
            peer="Strands",
        ),
        Scenario("agent: the same, awaited", "µs", None, turn_awaited, peer="Strands"),
        Scenario(
            f"agent: request {sizes.late_request} ÷ request {EARLY} of a conversation",
            "×",
            Target("at most", 1.2),
            partial(growth_with_requests, late=sizes.late_request),
            peer="Strands",
            most_pairs=9,
        ),
        Scenario(
            f"agent: a turn with {LAYERS} middlewares that pass on ÷ one without",
            "×",
            Target("at most", 2),
            partial(growth_with_middleware, layers=LAYERS),
            peer="Strands",
            most_pairs=9,
        ),
        Scenario(
            f"agent: restore a session of {messages} messages of 1 KB from its file",
            "ms",
            Target("ratio", 10),
            partial(restore_session, turns=sizes.session_turns),
            "own",
            peer="Strands",
        ),
        Scenario(
            f"agent: session of {messages} messages of 1 KB, size on disk ÷ its JSON",
            "×",
            Target("at most", 1.6),
            partial(size_of_session, turns=sizes.session_turns),
            "own",
            peer="Strands",
            most_pairs=1,
        ),
    ]
