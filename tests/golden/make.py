"""Golden files: databases as a version of graphkit wrote them, and what that version saw in them.

The rule: **a golden file is never written again.** Whatever changes later, these databases must read as they did for
the code that wrote them; a new version of the schema, or of the rows' format, adds files of its own. So this program
makes what is missing for the code that it runs with, and leaves what is there alone:

    python -m tests.golden.make                                 # the present version
    PYTHONPATH=old/graphkit:old/checkpoint python -m tests.golden.make   # an older one, from its checkout

`schema-N-format-M.sqlite` is a database (until format 3: `schema-N.sqlite`), `….sql` what `pg_dump` makes of one:
CREATE and INSERT, without settings. `….seen` beside each is `seen()` as text: states, histories, questions and nested
checkpoints of all threads.
The same scenarios run with every version, so they use only what every version has.
"""

from __future__ import annotations

import contextlib
import operator
import sqlite3
import subprocess
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Annotated, Any, Final, TypedDict
from uuid import UUID
from zoneinfo import ZoneInfo

from graphkit import START, Command, Send, StateGraph, interrupt
from graphkit.channels import EphemeralValue
from graphkit.checkpoint.serde import register_type
from graphkit.checkpoint.sqlite import SqliteSaver
from graphkit.types import RunnableConfig
from graphkit_checkpoint.layout import FORMAT
from graphkit_checkpoint.statements import SCHEMA_VERSION

FOLDER: Final = Path(__file__).parent
PRESENT: Final = f"schema-{SCHEMA_VERSION}-format-{FORMAT}"
APPENDED: Final = 66
"""Supersteps of the longest thread: enough for what a saver does only now and then."""
LETTER: Final = "Dear reader, " * 24
"""Longer than what is stored within a checkpoint."""


@dataclass
class Invoice:
    number: str
    amount: Decimal
    lines: list[Any]


register_type(Invoice, name="golden:Invoice")

EVERYTHING: Final[dict[Any, Any]] = {
    "none": None,
    "bool": True,
    "ints": [0, -1, 2**63, -(2**70)],
    "floats": [0.1, -0.0, 1e300, float("inf"), float("nan")],
    "texts": ["", "ä", "\ud800", "日本"],
    "bytes": b"\x00\xff",
    "bytearray": bytearray(b"\x01"),
    "tuple": ((), (1, ("x",))),
    "sets": [{1, 2, 3}, frozenset({"x"}), set()],
    "complex": 1 - 2j,
    "moments": [
        datetime(2024, 7, 1, 12, 30, 0, 5, tzinfo=ZoneInfo("Europe/Berlin")),
        datetime(2024, 7, 1, tzinfo=UTC),
        date(2024, 2, 29),
        time(23, 59, fold=1),
        timedelta(days=-1, microseconds=3),
        timezone(timedelta(hours=5), "five"),
    ],
    "uuid": UUID(int=7),
    "numbers": [Decimal("1.50"), Fraction(2, 3)],
    "paths": [PurePosixPath("a/b"), PureWindowsPath("c:/d")],
    "deque": deque([1, 2], maxlen=3),
    "range": range(1, 9, 2),
    "ordered": OrderedDict(b=1, a=2),
    "counter": Counter("aab"),
    "default": defaultdict(list, {"k": [1]}),
    "invoice": Invoice("4711", Decimal("99.90"), [{"sku": "x", "count": 2}]),
    (1, "key"): {2: "two"},
}


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    marks: Annotated[dict[str, Any], operator.or_]
    word: Any
    answer: Any
    note: Annotated[Any, EphemeralValue]


class Item(TypedDict, total=False):
    n: int
    invoice: Invoice


Ran = Callable[[str], None]
"""Told the name of every node that runs."""
Graph = Any


def at(thread: str, **options: Any) -> RunnableConfig:
    config: Any = {"configurable": {"thread_id": thread}, **options}
    return config  # type: ignore[no-any-return]


# Graphs


def long(saver: Any, ran: Ran) -> Graph:
    """A list and a dict that grow, and a note that comes and goes."""

    def add(state: State) -> State:
        ran("add")
        count = len(state["log"])
        marked: State = {"log": [count], "marks": {f"m{count % 5}": count}}
        return marked if count % 4 else {**marked, "note": count}

    def more(state: State) -> str:
        return "add" if len(state["log"]) < APPENDED else "__end__"

    builder = StateGraph(State).add_node(add).add_edge(START, "add")
    return builder.add_conditional_edges("add", more).compile(saver)


def asking(saver: Any, ran: Ran) -> Graph:
    """A node that asks twice."""

    def ask(state: State) -> State:
        ran("ask")
        first = interrupt({"first": state["word"]})
        second = interrupt("second")
        return {"log": [first, second]}

    def close(state: State) -> State:
        ran("close")
        return {"answer": len(state["log"])}

    return StateGraph(State).add_sequence([ask, close]).add_edge(START, "ask").compile(saver)


def row(saver: Any, ran: Ran) -> Graph:
    """Four nodes, one after the other."""

    def node(name: str) -> Callable[[State], State]:
        def run(state: State) -> State:
            ran(name)
            return {"log": [name], "marks": {name: len(state.get("log", ()))}}

        return run

    builder = StateGraph(State).add_sequence([(name, node(name)) for name in "abcd"])
    return builder.add_edge(START, "a").compile(saver)


def nested(saver: Any, ran: Ran) -> Graph:
    """Three graphs, one in the other; the innermost asks."""

    def before(state: State) -> State:
        ran("before")
        return {"log": ["before"]}

    def ask(state: State) -> State:
        ran("ask")
        return {"answer": interrupt(f"how deep is {state['word']}?")}

    inner = StateGraph(State).add_sequence([before, ask]).add_edge(START, "before").compile()
    middle = StateGraph(State).add_node("inner", inner).add_edge(START, "inner").compile()
    return StateGraph(State).add_node("middle", middle).add_edge(START, "middle").compile(saver)


def siblings(saver: Any, ran: Ran, breaks: bool = False) -> Graph:
    """Three tasks side by side, of which one fails if it `breaks`."""

    def work(item: Item) -> State:
        ran(f"work {item['n']}")
        if breaks and item["n"] == 3:
            raise ConnectionResetError("the third is down")
        return {"log": [item["invoice"]]}

    def share(state: State) -> list[Send]:
        return [Send("work", Item(n=n, invoice=Invoice(f"{n}", Decimal(n), []))) for n in (1, 2, 3)]

    def close(state: State) -> State:
        ran("close")
        return {"answer": [invoice.number for invoice in state["log"]]}

    builder = StateGraph(State).add_node("share", lambda state: {"word": "shared"})
    builder.add_node(work).add_node(close)
    builder.add_edge(START, "share").add_conditional_edges("share", share, ["work"]).add_edge("work", "close")
    return builder.compile(saver)


def joining(saver: Any, ran: Ran) -> Graph:
    """A join of which one side is there and the other asks."""

    def ask(state: State) -> State:
        ran("ask")
        return {"log": [interrupt("join?")]}

    def close(state: State) -> State:
        ran("close")
        return {"answer": sorted(state["log"])}

    builder = StateGraph(State).add_node("left", lambda state: {"log": ["left"]})
    builder.add_node("right", lambda state: {"log": ["right"]}).add_node(ask).add_node(close)
    builder.add_edge(START, "left").add_edge(START, "right").add_edge("right", "ask")
    return builder.add_edge(["left", "ask"], "close").compile(saver)


def entering(saver: Any, ran: Ran) -> Graph:
    """The way in asks, so the input waits."""

    def way(state: State) -> str:
        ran("way")
        return str(interrupt("which way?"))

    def go(state: State) -> State:
        ran("go")
        return {"log": ["went"]}

    return StateGraph(State).add_node(go).add_conditional_edges(START, way, ["go"]).compile(saver)


def keeping(saver: Any, ran: Ran) -> Graph:
    """Values of all kinds, as they come and as a node writes them."""

    def keep(state: State) -> State:
        ran("keep")
        return {"answer": state["word"], "log": list(EVERYTHING.values())}

    return StateGraph(State).add_node(keep).add_edge(START, "keep").compile(saver)


GRAPHS: Final[dict[str, Callable[[Any, Ran], Graph]]] = {
    "finished": long,
    "question": asking,
    "forked": row,
    "waiting": row,
    "nested": nested,
    "siblings": siblings,
    "joined": joining,
    "entry": entering,
    "types": keeping,
}
"""The graph of each thread."""


def fill(saver: Any) -> None:
    """Run all threads up to where they stay."""

    def graph(thread: str) -> Graph:
        return GRAPHS[thread](saver, lambda name: None)

    graph("finished").invoke({"log": []}, at("finished", recursion_limit=APPENDED + 1))
    ask(graph("question"))
    fork(graph("forked"))
    graph("waiting").update_state(at("waiting"), {"log": ["in"], "word": LETTER}, as_node="__input__")
    graph("nested").run({"word": "it", "log": ["in"]}, at("nested"))
    with contextlib.suppress(ConnectionResetError):
        siblings(saver, lambda name: None, breaks=True).invoke({}, at("siblings", max_concurrency=1))
    graph("joined").run({}, at("joined"))
    graph("entry").run({"word": LETTER, "log": [EVERYTHING["invoice"]]}, at("entry"))
    graph("types").invoke({"word": EVERYTHING, "log": []}, at("types"))


def ask(graph: Graph) -> None:
    """One of two questions answered, and a word from outside in between."""
    config = at("question", metadata={"user": "ada"})
    graph.run({"word": "w", "log": []}, config)
    graph.run(Command(resume="one"), config)
    graph.run(Command(update={"log": ["amended"]}), config)


def fork(graph: Graph) -> None:
    """A finished run, another branch from its middle, an edit, and a turn that goes to a node."""
    config = at("forked")
    graph.invoke({"log": ["in"], "word": LETTER}, config)
    middle = next(point for point in graph.get_state_history(config) if point.next == ("c",))
    edited = graph.update_state(middle.config, {"log": ["edited"]}, as_node="b")
    graph.invoke(None, edited)
    graph.invoke(Command(update={"log": ["again"]}, goto="d"), config)


# What there is to see


def seen(saver: Any) -> str:
    """All there is to see, as text: the same text for the same database, whatever version looks."""
    lines: list[str] = []
    for thread, build in GRAPHS.items():
        graph = build(saver, lambda name: None)
        lines += [f"# {thread}", "## state", *shown(graph.get_state(at(thread)))]
        for point in graph.get_state_history(at(thread)):
            lines += ["## checkpoint", *shown(point)]
        for question in graph.get_state(at(thread)).interrupts:
            for namespace in above(question.namespace):
                lines += [f"## namespace {namespace}", *inside(saver, thread, namespace)]
    return "\n".join(lines) + "\n"


def text(value: Any) -> str:
    """The same in every version of Python."""
    if type(value) is OrderedDict:
        return f"OrderedDict({list(value.items())!r})"
    if type(value) is list:
        return f"[{', '.join(map(text, value))}]"
    if type(value) is dict:
        return "{" + ", ".join(f"{key!r}: {text(item)}" for key, item in value.items()) + "}"
    return repr(value)


def shown(point: Any) -> Iterator[str]:
    address, parent = (config and config["configurable"] for config in (point.config, point.parent_config))
    yield f"{address['checkpoint_id']} after {parent and parent['checkpoint_id']} at {point.created_at}"
    # Files of earlier versions know of no checkpoints around.
    metadata = sorted(item for item in point.metadata.items() if item[0] != "parents")
    yield f"metadata {metadata} next {point.next}"
    yield from (f"{key} = {text(value)}" for key, value in sorted(point.values.items()))
    for task in point.tasks:
        yield f"task {task.id} {task.name} {task.path} error {task.error} result {text(task.result)}"
    yield from map(repr, point.interrupts)


def above(namespace: str) -> list[str]:
    """A namespace and those around it, but for the root."""
    parts = namespace.split("|") if namespace else []
    return ["|".join(parts[: count + 1]) for count in range(len(parts))]


def inside(saver: Any, thread: str, namespace: str) -> Iterator[str]:
    """The checkpoints of a nested graph, from its head back."""
    saved = saver.find(thread, namespace)[1]
    while saved is not None:
        point = saved.checkpoint
        yield f"{point.id} after {point.parent_id} step {point.step} next {point.control['next']}"
        yield from (f"{key} = {value!r}" for key, value in sorted(saved.values.items()))
        yield from (f"{record.kind} {record.key} = {record.value!r}" for record in saved.pending)
        saved = saver.find(thread, namespace, point.parent_id)[1] if point.parent_id else None


# The files


def make_sqlite(path: Path) -> None:
    with SqliteSaver(path) as saver:
        fill(saver)
        write_seen(path, saver)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("VACUUM")
    connection.close()


def make_postgres(path: Path) -> None:
    from graphkit.checkpoint.postgres import PostgresSaver
    from tests.postgres import PORT, PostgresServer

    with PostgresServer() as server:
        name = server.create_database()
        with PostgresSaver(server.url(name)) as saver:
            fill(saver)
            write_seen(path, saver)
        options = ["--inserts", "--no-owner", "--no-privileges", f"--host={server.folder}", f"--port={PORT}"]
        command = [str(server.binaries / "pg_dump"), *options, "--username=postgres", name]
        dumped = subprocess.run(command, capture_output=True, text=True, check=True)
    path.write_text(without_settings(dumped.stdout))


def without_settings(dump: str) -> str:
    """The dump as any client and every server since version 14 takes it: psql's own commands, comments and settings
    are left out, which name the version of the server that wrote it."""
    left_out = ("--", "\\", "SET ", "SELECT pg_catalog.set_config")
    return "".join(f"{line}\n" for line in dump.splitlines() if line and not line.startswith(left_out))


def write_seen(path: Path, saver: Any) -> None:
    Path(f"{path}.seen").write_text(seen(saver))


def main() -> None:
    for suffix, make in {"sqlite": make_sqlite, "sql": make_postgres}.items():
        path = FOLDER / f"{PRESENT}.{suffix}"
        if path.exists():
            print(f"{path.name} is there and stays as it is")
        else:
            make(path)
            print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
