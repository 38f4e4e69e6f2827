"""Cached nodes: the key of a result, what is kept of it, and what becomes of it when it is found again.

A cache saves work and never costs a run: whatever goes wrong with it is warned of, once per node and reason,
and the node runs. Not kept is what depends on more than the node's input: a result that holds a person's
answer, what an error handler made of a failure, and which way a conditional edge chose, since that sees the
state around the node. The edges of a result that is found are decided anew.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from graphkit.engine import effects
from graphkit.engine.attempt import Attempt, Done
from graphkit.engine.effects import Effects
from graphkit.engine.program import ROOT, Callee, NodeSpec, Vocabulary
from graphkit.engine.tasks import output_of
from graphkit.engine.updates import checked_targets
from graphkit.errors import InvalidUpdateError
from graphkit.types import Command
from graphkit_checkpoint.errors import UnstorableError
from graphkit_checkpoint.serde import fingerprint

Key = tuple[tuple[str, ...], str]


def key_of(node: NodeSpec, arg: Any, words: Vocabulary) -> Key | None:
    """Where the result for this input is kept. None, with a warning, if the input cannot be told from others."""
    assert node.cache is not None
    key_func = node.cache.policy.key_func
    try:
        if key_func is None:
            return node.cache.namespace, fingerprint(_ordered(arg))
        key = key_func(node.shape.instance(arg))
        if isinstance(key, (str, bytes)):
            return node.cache.namespace, fingerprint(key)
        problem = f"the key_func of node {node.name!r} returned a {type(key).__name__}, not text or bytes"
    except UnstorableError as error:
        problem = f"the input of node {node.name!r} has no key in the cache: {error}. Give its CachePolicy a key_func"
    except Exception as error:
        problem = f"the key_func of node {node.name!r} failed with {error!r}"
    _warn(words, node, "key", problem)
    return None


def look_up(attempt: Attempt) -> Effects:
    """Reply: the output that the cache has for this attempt's input; None if it has none that fits the graph."""
    assert attempt.cache_key is not None
    try:
        found = yield effects.CacheGet(*attempt.cache_key)
    except Exception as error:
        _warn(
            attempt.words,
            attempt.node,
            "get",
            f"the cache of node {attempt.node.name!r} failed with {error!r}",
        )
        return None
    return _fitting(found, attempt.node, attempt.words)


def keep(attempt: Attempt, output: Done) -> Effects:
    """Put the output of an attempt into the cache."""
    assert attempt.cache_key is not None and attempt.node.cache is not None
    name = attempt.node.name
    own = len(output.targets) - (output.chosen or 0)
    value = {
        "writes": [list(write) for write in output.writes],
        "targets": list(output.targets[:own]),
        "final": output.chosen is None,
    }
    try:
        yield effects.CachePut(*attempt.cache_key, value, attempt.node.cache.policy.ttl)
    except UnstorableError as error:
        key, reason = _culprit(output, error)
        _warn(
            attempt.words,
            attempt.node,
            f"value {key}",
            f"node {name!r} wrote to {key!r} what cannot be cached: {reason}",
        )
    except Exception as error:
        _warn(attempt.words, attempt.node, "set", f"the cache of node {name!r} failed with {error!r}")


def recalling(attempt: Attempt, found: Done) -> Attempt:
    """The attempt with the node's result known: its conditional edges are left to decide."""
    update: Any = found.writes
    if ROOT in attempt.words.channels:
        update = found.writes[0][1] if found.writes else None
    known = Command(update=update, goto=list(found.targets))
    callee = Callee(attempt.node.callee.name, functools.partial(_known, known), None)
    return attempt.again(node=replace(attempt.node, callee=callee), cache_key=None)


def _ordered(arg: Any) -> Any:
    """The input with its keys in order: a state that was loaded may have them in another one."""
    if type(arg) is dict and all(isinstance(key, str) for key in arg):
        return dict(sorted(arg.items()))
    return arg


def _known(result: Any, state: Any) -> Any:
    return result


def _fitting(found: Any, node: NodeSpec, words: Vocabulary) -> Done | None:
    """What was found, unless another version of the graph has left it, or something else altogether."""
    if not isinstance(found, Mapping) or not found.keys() >= {"writes", "targets", "final"}:
        return None
    try:
        output = output_of(found)
        checked_targets(output.targets, "the cache", words.nodes)
    except (InvalidUpdateError, TypeError, ValueError):
        return None
    output.chosen = None if found["final"] else 0
    fits = node.result is not None or words.channels.issuperset(key for key, _ in output.writes)
    return output if fits else None


def _culprit(output: Done, error: UnstorableError) -> tuple[str, UnstorableError]:
    """The first key whose value cannot be stored, and why."""
    for key, value in output.writes:
        try:
            fingerprint(value)
        except UnstorableError as reason:
            return key, reason
    return "goto", error


def _warn(words: Vocabulary, node: NodeSpec, about: str, problem: str) -> None:
    mark = (f"{node.name}:cache", about)  # no node has a colon in its name
    if mark not in words.warned:
        words.warned.add(mark)
        warnings.warn(f"{problem}; the run goes on, uncached", RuntimeWarning, stacklevel=2)
