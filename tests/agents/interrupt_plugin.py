"""An interrupt system as a plugin: what `event.interrupt()` does, written outside of the library on its public API."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from graphkit import Agent, AgentResult
from graphkit.errors import UnserializableStateError
from graphkit.plugins import HaltSignal, Plugin, ResumeDirective
from graphkit.types import Interrupt


@dataclass
class Answers:
    """The answers to the questions of a turn, by their ids."""

    by_id: dict[str, Any] = field(default_factory=dict)


class Interrupts(Plugin):
    """`ask` halts with a question; `agent.resume("interrupts", [{"interruptResponse": ...}])` goes on with answers."""

    name = "interrupts"
    invocation_state_type = Answers

    def __init__(self) -> None:
        self._asked: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()

    def ask(self, asking: Any, name: str, reason: Any = None) -> Any:
        """The answer to a question of an event or of a tool; halts as long as there is none."""
        if name in self._asked.setdefault(asking, set()):
            raise ValueError(f"a question named {name!r} was asked already")
        self._asked[asking].add(name)
        use = getattr(asking, "tool_use", None) or {"toolUseId": len(asking.agent.messages)}
        id = f"{type(asking).__name__}/{use['toolUseId']}/{name}"
        answers = asking.agent.get_plugin_state(self.name, per_invocation=True).by_id
        if id in answers:
            return answers[id]
        check(reason, f"the reason of question {name!r}")
        raise HaltSignal("interrupt", {"id": id, "name": name, "reason": reason}, plugin=self.name)

    def on_resume(self, agent: Agent, data: Any) -> ResumeDirective:
        halts = {halt.data["id"]: halt for halt in agent.halts if halt.plugin == self.name}
        answers = agent.get_plugin_state(self.name, per_invocation=True)
        for block in data:
            id, answer = block["interruptResponse"]["interruptId"], block["interruptResponse"]["response"]
            if id not in halts:
                raise KeyError(f"no question {id!r} is open")
            answers.by_id[id] = check(answer, f"the answer to question {id!r}")
        agent.set_plugin_state(self.name, answers, per_invocation=True)
        return ResumeDirective(halts=[halt for id, halt in halts.items() if id in answers.by_id])

    def questions(self, result: AgentResult) -> list[Interrupt]:
        """What a person is to be asked, in the order of the calls."""
        own = [halt.data for halt in result.halts if halt.plugin == self.name]
        return [Interrupt(id=each["id"], name=each["name"], value=each["reason"]) for each in own]


def check(value: Any, what: str) -> Any:
    try:
        json.dumps(value)
    except (TypeError, ValueError) as error:
        raise UnserializableStateError(f"{what} cannot be written as JSON: {error}") from error
    return value
