"""The sample on the `HookProvider` protocol, with only the imports changed (S64, S68, S145, S171)."""

from __future__ import annotations

import pytest

from graphkit import Agent
from graphkit.hooks import AfterInvocationEvent, BeforeInvocationEvent, HookProvider, HookRegistry
from graphkit.models import ScriptedModel

pytestmark = pytest.mark.usefixtures("either_colour")


class RequestLogger(HookProvider):
    def register_hooks(self, registry: HookRegistry) -> None:
        registry.add_callback(BeforeInvocationEvent, self.log_start)
        registry.add_callback(AfterInvocationEvent, self.log_end)

    def log_start(self, event: BeforeInvocationEvent) -> None:
        print(f"Request started for agent: {event.agent.name}")

    def log_end(self, event: AfterInvocationEvent) -> None:
        print(f"Request completed for agent: {event.agent.name}")


def test_a_provider_given_and_added(model: ScriptedModel, capsys: pytest.CaptureFixture[str]) -> None:
    model.turns = ["hello", "again"]

    # Pass via hooks parameter
    agent = Agent(hooks=[RequestLogger()])

    agent("hello")
    printed = capsys.readouterr().out
    assert printed.index("Request started for agent: graphkit agent") < printed.index("Request completed")
    assert (printed.count("started"), printed.count("completed")) == (1, 1)

    # Or add after creation
    agent.hooks.add_hook(RequestLogger())

    agent("again")
    printed = capsys.readouterr().out
    assert (printed.count("started"), printed.count("completed")) == (2, 2)


def test_agents_have_names_and_registries_of_their_own(
    model: ScriptedModel, capsys: pytest.CaptureFixture[str]
) -> None:
    model.turns = ["hello", "hello"]
    one = Agent(name="one", hooks=[RequestLogger()], callback_handler=None)
    two = Agent(name="two", callback_handler=None)
    assert isinstance(one.hooks, HookRegistry)
    one("hello")
    two("hello")
    assert capsys.readouterr().out.splitlines() == [
        "Request started for agent: one",
        "Request completed for agent: one",
    ]
