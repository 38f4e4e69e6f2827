"""`python -m graphkit_checkpoint.conformance sqlite:///path | postgresql://… | module:callable`"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from graphkit_checkpoint.conformance.capabilities import OPTIONAL, Capability
from graphkit_checkpoint.conformance.checking import check_saver, check_store


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a report; 0 if all is well, 1 if not, 2 for a wrong call."""
    parser = argparse.ArgumentParser(
        prog="python -m graphkit_checkpoint.conformance",
        description="Check a saver or a store on an empty storage: the suite deletes and prunes without asking. "
        "Prints a table of what was checked, with every failure below it; ends with 0 if there is none, with 1 if "
        "there is one, with 2 for a wrong call.",
    )
    parser.add_argument(
        "subject",
        help="sqlite:///path, postgresql://user@host/database, or module:callable, which is called with the options "
        "of BaseCheckpointSaver (of a store: ttl) and opens another saver on the same storage each time",
    )
    parser.add_argument("--store", action="store_true", help="a store, not a saver")
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="CAPABILITY=REASON",
        help=f"what there is not, and why: {', '.join(sorted(OPTIONAL))}",
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="CAPABILITY",
        help=f"check nothing but this: one of the above, {', '.join(sorted(set(Capability) - OPTIONAL))}",
    )
    given = parser.parse_args(arguments)
    check = check_store if given.store else check_saver
    try:
        without = dict(_pair(text) for text in given.without)
        report = check(_maker(given.subject, given.store), without=without, only=given.only)
    except ValueError as error:
        parser.error(str(error))
    print(report)
    return 0 if report.ok else 1


def _pair(text: str) -> tuple[str, str]:
    name, _, reason = text.partition("=")
    return name.strip(), reason.strip()


def _maker(subject: str, store: bool) -> Callable[..., Any]:
    scheme, found, _ = subject.partition("://")
    if found:
        return partial(_class_of(scheme.partition("+")[0], store), subject)
    module, found, name = subject.partition(":")
    if not found:
        raise ValueError(f"{subject!r} is neither a URL nor module:callable")
    sys.path.insert(0, os.getcwd())
    try:
        maker: Callable[..., Any] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{subject!r} cannot be found: {error}") from error
    return maker


def _class_of(scheme: str, store: bool) -> Any:
    if scheme == "sqlite":
        from graphkit_checkpoint.sqlite import SqliteSaver
        from graphkit_checkpoint.store.sqlite import SqliteStore

        return SqliteStore if store else SqliteSaver
    if scheme in ("postgres", "postgresql"):
        from graphkit_checkpoint.postgres import PostgresSaver
        from graphkit_checkpoint.store.postgres import PostgresStore

        return PostgresStore if store else PostgresSaver
    raise ValueError(f"there is no saver for {scheme}://; name one of your own as module:callable")


if __name__ == "__main__":
    sys.exit(main())
