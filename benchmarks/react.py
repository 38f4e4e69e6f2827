"""`create_react_agent` beside LangGraph's: a run of many turns of model and tool, and what it leaves on disk.

The models are scripted and say the same. The peer takes chat models of LangChain, so its model is the smallest of
those; graphkit takes them too, and is measured with a model of its own and with the peer's.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.agents import Chunks, add, calling, saying
from benchmarks.conversations import stored_bytes
from benchmarks.frameworks import Framework
from benchmarks.scenario import Sample, Scenario, Sizes, Target, forget, options

QUESTION = "How much is one and two?"
ANSWER = "It is three."
GIVEN = {"a": 1, "b": 2}


def own_model(turns: int) -> Any:
    """A model of graphkit that calls the tool so many times, then answers, and so on."""
    from graphkit.models import Model

    numbers = count()

    def stream(self: Any, *args: Any, **kwargs: Any) -> Chunks:
        number = next(numbers)
        return calling("add", number, GIVEN) if (number + 1) % (turns + 1) else saying(ANSWER)

    methods: dict[str, Any] = {
        "stream": stream,
        "get_config": lambda self: {},
        "update_config": lambda self, **config: None,
    }
    return type("Scripted", (Model,), methods)()


def chat_model(turns: int) -> Any:
    """The same as a chat model of LangChain."""
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    numbers = count()

    class Scripted(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "scripted"

        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            return self

        def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
            number = next(numbers)
            call = {"name": "add", "args": GIVEN, "id": f"call-{number}"}
            message = AIMessage("", tool_calls=[call]) if (number + 1) % (turns + 1) else AIMessage(ANSWER)
            return ChatResult(generations=[ChatGeneration(message=message)])

    return Scripted()


def new_agent(framework: Framework, saver: Any, turns: int, same_model: bool = False) -> Any:
    """An agent whose every run takes so many turns."""
    prebuilt = import_module(f"{framework.name.lower()}.prebuilt")
    own = framework.name == "graphkit" and not same_model
    model = own_model(turns) if own else chat_model(turns)
    return prebuilt.create_react_agent(model, [add], checkpointer=saver)


def run_turns(agent: Any, saver: Any, turns: int) -> dict[str, Any]:
    """One run on a thread of its own. Returns its options."""
    run = options(saver)
    result = agent.invoke({"messages": [{"role": "user", "content": QUESTION}]}, **run)
    assert len(result["messages"]) == 2 * turns + 2
    return run


def time_of_run(framework: Framework, saver: Any, turns: int, same_model: bool = False) -> Sample:
    """Seconds of one run of so many turns."""
    agent = new_agent(framework, saver, turns, same_model)

    def sample() -> float:
        started = perf_counter()
        run = run_turns(agent, saver, turns)
        elapsed = perf_counter() - started
        forget(saver, run)
        return elapsed

    return sample


def growth_on_disk(framework: Framework, folder: Path, turns: int) -> Sample:
    """How many times more bytes a run of twice as many turns leaves in files: 2 if a turn always leaves as many."""

    def stored(turns: int) -> int:
        place = folder / str(turns)
        place.mkdir()
        with framework.savers["sqlite"](place) as saver:
            run_turns(new_agent(framework, saver, turns), saver, turns)
        return stored_bytes(place)

    return lambda: stored(2 * turns) / stored(turns)


def rows(sizes: Sizes) -> list[Scenario]:
    turns = sizes.react_turns
    return [
        Scenario(
            f"create_react_agent: {turns} turns of model and tool, SQLite NORMAL",
            "ms",
            Target("ratio", 10),
            partial(time_of_run, turns=turns),
            "sqlite",
        ),
        Scenario(
            "create_react_agent: the same, LangChain's chat model in both",
            "ms",
            None,
            partial(time_of_run, turns=turns, same_model=True),
            "sqlite",
            slow=True,
        ),
        Scenario(
            f"create_react_agent: size on disk, {2 * turns} turns ÷ {turns} turns, SQLite",
            "×",
            Target("at most", 2.1),
            partial(growth_on_disk, turns=turns),
            "own",
            most_pairs=1,
        ),
    ]
