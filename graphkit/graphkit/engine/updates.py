"""What users return and pass in, as writes and targets. Raises `InvalidUpdateError` for everything else."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import ItemsView, Iterable, Mapping, Sequence
from typing import Any

from graphkit.constants import END, PARENT, START
from graphkit.engine.attempt import Done, Target, Write
from graphkit.engine.program import ROOT, Program, Vocabulary
from graphkit.errors import InvalidUpdateError, UnknownChannelWarning
from graphkit.types import Command, Send


def read_output(returned: Any, node: str, words: Vocabulary) -> Done:
    """Take a node's return value apart: an update, a `Command`, a `Send`, or a list of them. It is `steered` if one of
    those says where to go."""
    output = Done([])
    if ROOT in words.channels:
        _read_root(returned, node, words, output)
    elif isinstance(returned, dict):
        known = words.channels.issuperset(returned)
        output.writes = list(returned.items()) if known else known_writes(returned.items(), node, words)
    elif returned is not None:
        _read_any(returned, node, words, output)
    return output


def _read_any(returned: Any, node: str, words: Vocabulary, output: Done) -> None:
    if isinstance(returned, (Command, Send)):
        _read_steering(returned, node, words, output)
    elif isinstance(returned, (list, tuple)) and all(_is_part(part) for part in returned):
        for part in returned:
            if isinstance(part, dict):
                output.writes += known_writes(part.items(), node, words)
            else:
                _read_steering(part, node, words, output)
    elif (pairs := attribute_pairs(returned)) is not None:
        output.writes = known_writes(pairs, node, words)
    else:
        raise InvalidUpdateError(
            f"node {node!r} returned a {type(returned).__name__} ({returned!r:.100}); return a dict of updates, "
            f"a Command, a Send, an instance of the state schema, or None"
        )


def _is_part(part: Any) -> bool:
    return isinstance(part, (dict, Command, Send))


def _read_root(returned: Any, node: str, words: Vocabulary, output: Done) -> None:
    if isinstance(returned, (Command, Send)):
        _read_steering(returned, node, words, output)
    elif isinstance(returned, (list, tuple)) and any(isinstance(part, (Command, Send)) for part in returned):
        for part in returned:
            _read_root(part, node, words, output)
    elif returned is not None:
        output.writes.append((ROOT, returned))


def _read_steering(given: Command[Any] | Send, node: str, words: Vocabulary, output: Done) -> None:
    command: Command[Any] = Command(goto=given) if isinstance(given, Send) else given
    if command.graph is not None:
        if command.graph != PARENT:
            raise InvalidUpdateError(
                f"node {node!r} returned a Command for graph {command.graph!r}; only Command.PARENT is known"
            )
        output.parent = command if output.parent is None else together([output.parent, command])
        return
    if command.resume is not None:
        output.resume = command
    if command.update is not None:
        output.writes += update_writes(command.update, node, words)
    targets = checked_targets(command.goto, node, words.nodes)
    if targets:
        output.targets = [*output.targets, *targets]
        output.steered = True


def together(commands: Sequence[Command[Any]]) -> Command[Any]:
    """One command for the graph around that says what these say, in their order. Raises `InvalidUpdateError` if their
    updates are no keys and values."""
    if len(commands) == 1:
        return commands[0]
    pairs: list[tuple[Any, Any]] = []
    targets: list[Any] = []
    for command in commands:
        update, goto = command.update, command.goto
        found = update.items() if isinstance(update, Mapping) else update
        if found is not None and not _are_pairs(found):
            found = attribute_pairs(found)
            if found is None:
                raise InvalidUpdateError(
                    f"several commands for the graph around are one: their updates must be dicts, not {update!r:.100}"
                )
        pairs += found or ()
        targets += goto if isinstance(goto, (list, tuple)) else [goto]
    return Command(graph=PARENT, update=pairs or None, goto=targets)


def _are_pairs(update: Any) -> bool:
    is_listed = isinstance(update, (list, tuple, ItemsView))
    return is_listed and all(isinstance(pair, tuple) and len(pair) == 2 for pair in update)


def update_writes(update: Any, node: str, words: Vocabulary) -> list[Write]:
    """The writes of an update: a dict, (key, value) pairs, or an instance with fields."""
    if ROOT in words.channels:
        return [(ROOT, update)]
    if isinstance(update, dict) and words.channels.issuperset(update):
        return list(update.items())
    if isinstance(update, Mapping):
        return known_writes(update.items(), node, words)
    if _are_pairs(update):
        return known_writes(update, node, words)
    pairs = attribute_pairs(update)
    if pairs is None:
        raise InvalidUpdateError(
            f"{node!r} gave an update of type {type(update).__name__} ({update!r:.100}); give a dict of channel "
            f"names and values"
        )
    return known_writes(pairs, node, words)


def known_writes(pairs: Iterable[tuple[Any, Any]], node: str, words: Vocabulary) -> list[Write]:
    """The pairs whose key is a channel; the others are warned of, once per node and key."""
    writes = []
    for key, value in pairs:
        if key in words.channels:
            writes.append((key, value))
        elif (node, str(key)) not in words.warned:
            words.warned.add((node, str(key)))
            whose = "the input has" if node == START else f"node {node!r} returned"
            warnings.warn(
                f"{whose} the key {key!r}, which is no channel of its graph; the value was not stored. Add the key to "
                f"the state schema",
                UnknownChannelWarning,
                stacklevel=2,
            )
    return writes


def attribute_pairs(instance: Any) -> list[tuple[str, Any]] | None:
    """(field, value) of a dataclass or pydantic instance; None for anything else.

    All fields of a dataclass; of a model those that were set, and those that are not None.
    """
    if isinstance(instance, (type, Send)):
        return None
    if dataclasses.is_dataclass(instance):
        return [(spec.name, getattr(instance, spec.name)) for spec in dataclasses.fields(instance)]
    fields = getattr(type(instance), "model_fields", None)
    if fields is None:
        return None
    given = instance.model_fields_set
    return [
        (name, getattr(instance, name))
        for name in fields
        if name in given or getattr(instance, name) is not None
    ]


def checked_targets(goto: Any, node: str, nodes: frozenset[str], branch: str | None = None) -> list[Target]:
    """The targets of a `goto` or of a branch. Raises `InvalidUpdateError` naming an unknown node."""
    targets: Sequence[Any] = goto if isinstance(goto, (list, tuple)) else (goto,)
    for target in targets:
        name = target.node if isinstance(target, Send) else target
        if name == END and not isinstance(target, Send):
            continue
        if not isinstance(name, str) or name not in nodes:
            who = repr(node) if branch is None else f"the branch {branch!r} of node {node!r}"
            raise InvalidUpdateError(
                f"{who} goes to {name!r}, which is no node of the graph; it has {', '.join(sorted(nodes))}"
            )
    return list(targets)


class Beginning(dict[str, Any]):
    """An input of a graph, and what is written before it where nothing is stored yet: `first`, by channel. A call is
    known again by the input alone."""

    __slots__ = ("first",)

    def __init__(self, given: Mapping[str, Any], first: Mapping[str, Any]) -> None:
        super().__init__(given)
        self.first = first


def writes_of_input(program: Program, given: Any) -> list[Write]:
    """The writes of a graph's input."""
    if program.takes is not None:
        return [(program.takes, given)]
    # A dict is recognised by its class; whether something else is a mapping takes longer to say.
    pairs = given.items() if isinstance(given, (dict, Mapping)) else attribute_pairs(given)
    if pairs is None:
        raise InvalidUpdateError(
            f"the input of graph {program.name!r} is a {type(given).__name__} ({given!r:.100}); give a dict of "
            f"channel names and values"
        )
    writes = known_writes(pairs, START, program.words)
    return [(key, value) for key, value in writes if key in program.input_keys]


def command_parts(words: Vocabulary, command: Command[Any]) -> tuple[list[Write], list[Target]]:
    """The writes and targets of a command that is given to a graph from outside."""
    if command.graph is not None:
        raise InvalidUpdateError("a Command given to a graph addresses that graph; leave out graph=")
    writes = [] if command.update is None else update_writes(command.update, "Command", words)
    return writes, checked_targets(command.goto, "Command", words.nodes)
