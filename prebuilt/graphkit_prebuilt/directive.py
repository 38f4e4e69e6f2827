"""What a plugin says about how a turn goes on that it has halted, and what that comes to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from graphkit.errors import InvalidDirectiveError
from graphkit.types import Overwrite, StateSnapshot
from graphkit_prebuilt.content import (
    Message,
    ToolResult,
    ToolResultBlock,
    tool_result,
    tool_results,
    tool_uses,
)
from graphkit_prebuilt.conversation import copied, edit, last
from graphkit_prebuilt.halting import Halt
from graphkit_prebuilt.log import DELETED, UNFINISHED, unfinished
from graphkit_prebuilt.loop.directed import AGAIN, COMPLETED, RESTORED

if TYPE_CHECKING:
    from graphkit_prebuilt.plugins import MultiAgentPlugin

__all__ = ["ResumeDirective", "Way", "chosen", "way_of", "way_of_team"]

Writes = dict[str, Any]


@dataclass(frozen=True)
class ResumeDirective:
    """How a turn goes on that was halted. Without arguments: where it was halted, as if it had not been.

    `skip_model_call`: True goes on with an answer that is there, the model's own or `restore_message`; it is an error
    if there is none. False calls the model next: calls of tools that have no result are not made, and get an error
    result that says so. None does what is next.

    `restore_message` is the assistant's message whose calls of tools are made: it stands in place of the one whose
    calls were halted, or is taken as the model's answer. `completed_tool_results` are the results of calls that are not
    made any more: results, blocks of them, or `ToolResultBlock`s. Only calls that have no result run; one that the
    conversation has already stays.

    `halts` are those of the plugin's `agent.halts` that end; the others stay, and what they have halted does not run.
    None ends all. Of an orchestrator that is halted itself, and no agent in it, this is all that can be said.
    """

    skip_model_call: bool | None = None
    restore_message: Message | None = None
    completed_tool_results: Sequence[Any] = ()
    halts: Sequence[Halt] | None = None


class Way(NamedTuple):
    """How the graph goes on: what is written first, and whether as a new input instead of where it was halted."""

    writes: Writes
    anew: bool = False


def chosen(
    directive: ResumeDirective, halts: Mapping[str, Halt], plugin: MultiAgentPlugin
) -> dict[str, Halt]:
    """The halts that a directive ends. Raises `InvalidDirectiveError`."""
    if directive.halts is None:
        return dict(halts)
    ended = [str(getattr(halt, "id", "")) for halt in directive.halts]
    if not ended or not set(ended) <= halts.keys():
        raise InvalidDirectiveError(
            f"on_resume of plugin {plugin.name!r} returned a directive whose halts are {directive.halts!r:.300}; "
            f"they must be some of its own in agent.halts"
        )
    return {id: halts[id] for id in ended}


def way_of_team(directive: ResumeDirective, plugin: MultiAgentPlugin) -> Way:
    """`way_of` for an orchestrator, which calls no model. Raises `InvalidDirectiveError`."""
    if directive != ResumeDirective(halts=directive.halts):
        raise InvalidDirectiveError(
            f"on_resume of plugin {plugin.name!r} returned {directive!r:.300}; an orchestrator calls no model and no "
            f"tools, so that its directive can say nothing but which halts end"
        )
    return Way({})


def way_of(
    directive: ResumeDirective, halts: Mapping[str, Halt], snapshot: StateSnapshot, plugin: MultiAgentPlugin
) -> Way:
    """What a directive comes to. Raises `InvalidDirectiveError`."""
    wrong = f"on_resume of plugin {plugin.name!r} returned a directive"
    skip, message = directive.skip_model_call, directive.restore_message
    if skip not in (None, True, False):
        raise InvalidDirectiveError(
            f"{wrong} with skip_model_call={skip!r:.100}, which is neither True nor False"
        )
    if message is not None:
        message = _checked(message, wrong)
    results = _results_of(directive.completed_tool_results, wrong)
    pending, place = _pending(snapshot)
    target = pending if message is None else message
    calls = [] if target is None else [use["toolUseId"] for use in tool_uses(target)]
    if strangers := [call for call in results if call not in calls]:
        raise InvalidDirectiveError(
            f"{wrong} with results of calls that do not exist: {', '.join(map(repr, strangers))}; "
            f"the calls of the turn are {calls}"
        )
    if skip is False and message is not None:
        raise InvalidDirectiveError(f"{wrong} that restores an answer and calls the model all the same")
    halted_at = {task.name for task in snapshot.tasks for each in task.interrupts if each.id in halts}
    if pending is None and message is None:
        return Way(_without_answer(skip, halts, halted_at, wrong))
    if skip is False:
        results = {**{call: tool_result(call, "error", UNFINISHED) for call in calls}, **results}
    turn: Writes = {COMPLETED: results} if results else {}
    if message is None or (pending is not None and message["content"] == pending["content"]):
        return Way({"turn": turn} if turn else {})
    if pending is None and not halted_at.isdisjoint({"before", "model"}):
        return Way({"turn": {**turn, RESTORED: message}})
    if pending is not None and len(calls) == len(tool_uses(pending)):
        edits = snapshot.values.get("edits")
        return Way({**({"turn": turn} if turn else {}), "edits": edit(place, pending, message, edits)})
    if len(snapshot.interrupts) > len(halts):
        raise InvalidDirectiveError(
            f"{wrong} that restores a message with other calls, while something else waits too: "
            f"go on with that first"
        )
    return _anew(message, results, snapshot, place)


def _without_answer(skip: bool | None, halts: Mapping[str, Halt], halted_at: set[str], wrong: str) -> Writes:
    """There is no message whose calls are to be made: the model is next, or the turn has ended."""
    answered = halted_at <= {"model", "after", "closing"} and not any(
        halt.at_model for halt in halts.values()
    )
    if skip and not answered:
        raise InvalidDirectiveError(
            f"{wrong} that skips the model, which has not answered; give its answer as restore_message"
        )
    return {"turn": {AGAIN: min(halts)}} if skip is False and "model" in halted_at and answered else {}


def _anew(message: Message, results: Mapping[str, ToolResult], snapshot: StateSnapshot, place: int) -> Way:
    """Other calls than those that were halted: they take the place of these, with the results that there are."""
    values = snapshot.values
    log, edits = values.get("messages") or [], values.get("edits") or {}
    known = {use["toolUseId"] for use in tool_uses(message)}
    before = [result for each in log[place:] for result in tool_results(each) if result["toolUseId"] in known]
    turn = {
        RESTORED: message,
        COMPLETED: {**results, **{result["toolUseId"]: result for result in before}},
    }
    writes: Writes = {"turn": turn}
    if place < len(log):
        writes["messages"] = Overwrite(list(log[:place]))
        if outdated := [key for key in edits if key.partition(".")[0] == str(place)]:
            writes["edits"] = dict.fromkeys(outdated, DELETED)
    return Way(writes, anew=True)


def _pending(snapshot: StateSnapshot) -> tuple[Message | None, int]:
    """The message whose calls wait for results, as it is seen, and its place in the log; None, and the length."""
    log = snapshot.values.get("messages") or []
    if unfinished(log) is None:
        return None, len(log)
    place = len(log) - (1 if log[-1]["role"] == "assistant" else 2)
    return last({**snapshot.values, "messages": log[: place + 1]}), place


def _checked(message: Any, wrong: str) -> Message:
    if not isinstance(message, Mapping) or message.get("role") != "assistant":
        raise InvalidDirectiveError(
            f"{wrong} whose restore_message is {message!r:.200}, no message of the assistant"
        )
    content = message.get("content")
    if not isinstance(content, list) or not all(isinstance(block, Mapping) for block in content):
        raise InvalidDirectiveError(
            f"{wrong} whose restore_message has the content {content!r:.200}, no list of blocks"
        )
    for block in content:
        if "toolUse" in block and not (
            isinstance(block["toolUse"], Mapping)
            and {"toolUseId", "name", "input"} <= block["toolUse"].keys()
        ):
            raise InvalidDirectiveError(
                f"{wrong} whose restore_message has {block!r:.200}, which is no call of a tool"
            )
    restored: Message = copied(dict(message))
    return restored


def _results_of(given: Any, wrong: str) -> dict[str, ToolResult]:
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Sequence):
        raise InvalidDirectiveError(
            f"{wrong} whose completed_tool_results are {given!r:.200}, no list of results"
        )
    results: dict[str, ToolResult] = {}
    for one in given:
        result: Any = one.to_dict() if isinstance(one, ToolResultBlock) else one
        if isinstance(result, Mapping) and "toolResult" in result:
            result = result["toolResult"]
        if not (
            isinstance(result, Mapping)
            and isinstance(result.get("toolUseId"), str)
            and isinstance(result.get("content"), list)
        ):
            raise InvalidDirectiveError(f"{wrong} with {one!r:.200}, which is no result of a call")
        results[result["toolUseId"]] = copied({"status": "success", **result})
    return results
