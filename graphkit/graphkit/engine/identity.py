"""Names that are the same every time: of checkpoints, tasks and questions.

- A checkpoint id is `milliseconds-step-nonce`: ids sort by time, each after the head that it follows whatever
  the clock does, and the nonce of the run keeps two writers apart.
- A task id hashes (checkpoint id, namespace, step, path), so it is stable while the checkpoint is.
- A question id hashes (task id, index or name), so it is stable while its task is.
- A namespace is the path of tasks that a nested graph runs in, `node:task|node:task`. A graph that is called
  by a node's function adds which call it is: `node:task:number-name-input`, the last two as short hashes. So does
  a task that it calls, as `node:task:@number-name-input`. A graph
  that keeps its state (`checkpointer=True`) has neither task nor input in it: `node`, `node::number-name-`.
"""

from __future__ import annotations

from hashlib import blake2b

from graphkit.engine.matching import Call

TIME_DIGITS = 11
STEP_DIGITS = 6
_BEGINNING = f"%0{TIME_DIGITS}x-%0{STEP_DIGITS}x"
BESIDE = "+"
"""Before the number of a call whose caller has made calls side by side."""
TASK = "@"
"""Before the key of a call that is a task and no graph."""


def checkpoint_id(now: float, step: int, nonce: str, after: str | None) -> str:
    """`step` counts from -1. Sorts after `after`: the parent, or the thread's head where that is newer; one of another
    make, put from outside, may stand anywhere."""
    beginning = _BEGINNING % (int(now * 1000), step + 1)
    if after is not None and after >= beginning:  # a clock that went back
        before, its_step = _parts(after)
        moment = max(int(now * 1000), before if its_step < step + 1 else before + 1)
        beginning = _BEGINNING % (moment, step + 1)
    return f"{beginning}-{nonce}"


def unstored_id(nonce: str, step: int) -> str:
    """Where a run without a saver stands: only its task ids depend on it."""
    return f"{nonce}-{step}"


def _parts(checkpoint_id: str) -> tuple[int, int]:
    """Milliseconds and step (from 0) of an id; zeros for one of another make."""
    try:
        return int(checkpoint_id[:TIME_DIGITS], 16), int(checkpoint_id[TIME_DIGITS + 1 :][:STEP_DIGITS], 16)
    except ValueError:
        return 0, 0


def task_id(checkpoint: str, namespace: str, step: int, path: tuple[str | int, ...]) -> str:
    return _digest(checkpoint, namespace, str(step), *map(repr, path))


def question_id(task: str, name: str | None, index: int | None, within: str = "") -> str:
    """`within` is the part of the task that a name is unique in and an index counted in, if it is not the whole."""
    if name is None:
        return _digest(task, "index", within, str(index)) if within else _digest(task, "index", str(index))
    return _digest(task, "within", within, name) if within else _digest(task, "name", name)


def below(namespace: str, node: str, task: str, call: str = "") -> str:
    """The namespace of what runs inside a task of `namespace`."""
    own = f"{node}:{task}:{call}" if call else f"{node}:{task}"
    return f"{namespace}|{own}" if namespace else own


def task_in(namespace: str) -> str:
    """The id of the task that a nested graph runs in; "" if it is not in the namespace."""
    parts = namespace.rpartition("|")[2].split(":")
    return parts[1].partition("/")[0] if len(parts) > 1 else ""


def lasting(namespace: str) -> str:
    """The namespace of a graph that keeps its state from task to task: without tasks and inputs."""
    return "|".join(map(_without_task, namespace.split("|"))) if namespace else ""


def _without_task(part: str) -> str:
    node, *rest = part.split(":")
    if len(rest) < 2:
        return node
    number, call = call_at(rest[1])
    return f"{node}::{call_key(number, Call(call.name, ''))}"


def run_of(namespace: str) -> str:
    """The namespace of the run that a task belongs to; a task that was called has one of its own below it."""
    while f":{TASK}" in namespace.rpartition("|")[2]:
        namespace = namespace.rpartition("|")[0]
    return namespace


def call_key(number: int, call: Call) -> str:
    return f"{'' if call.ordered else BESIDE}{number}-{call.name}-{call.mark}"


def call_at(key: str) -> tuple[int, Call]:
    """The number and the call of a `call_key`. Raises `ValueError` for anything else."""
    number, name, mark = key.removeprefix(TASK).split("-")
    return int(number), Call(name, mark, not number.startswith(BESIDE))


def call_of(name: str, mark: str) -> Call:
    """A call as namespaces name it: short, and without a character that they are made of."""
    return Call(_digest(name)[:8], mark[:12])


def looks_like_question_id(key: object) -> bool:
    """32 lower-case hexadecimal digits."""
    return isinstance(key, str) and len(key) == 32 and not key.strip("0123456789abcdef")


def _digest(*parts: str) -> str:
    text = "\0".join(parts).encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=16).hexdigest()
