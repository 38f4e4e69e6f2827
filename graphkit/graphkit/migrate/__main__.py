"""`python -m graphkit.migrate PATH [--write]`: rewrite the imports of programs that use LangGraph or Strands.

Shows what would change, and what has no home here. Changes nothing without `--write`. Ends with 1 if something could
not be mapped or read, with 2 for a wrong call.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

NEEDED = "graphkit.migrate needs libcst: pip install 'graphkit-engine[migrate]'"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m graphkit.migrate", description=__doc__)
    parser.add_argument("path", type=Path, nargs="+", help="a file, or a folder with all .py files below it")
    parser.add_argument("--write", action="store_true", help="change the files")
    options = parser.parse_args(arguments)
    missing = [path for path in options.path if not path.exists()]
    if missing:
        parser.error(f"there is no {missing[0]}")
    try:
        import libcst  # noqa: F401
    except ImportError:
        parser.error(NEEDED)
    return _migrate(sources(options.path), options.write)


def _migrate(paths: Iterator[Path], write: bool) -> int:
    from graphkit.migrate.rewriting import migrate

    files = imports = missed = 0
    for path in paths:
        try:
            source = _read(path)
            found = migrate(source)
        except (OSError, SyntaxError, UnicodeDecodeError, RecursionError) as error:
            print(f"{path}: not read: {error}", file=sys.stderr)
            missed += 1
            continue
        for unmapped in found.unmapped:
            print(f"{path}:{unmapped.line}: {unmapped.name}: {unmapped.reason}", file=sys.stderr)
        missed += len(found.unmapped)
        if found.source == source:
            continue
        if write:
            try:
                path.write_bytes(found.source)
            except OSError as error:
                print(f"{path}: not written: {error}", file=sys.stderr)
                missed += 1
                continue
        files, imports = files + 1, imports + found.changed
        if not write:
            sys.stdout.writelines(_difference(path, source, found.source))
    done = "rewritten" if write else "to be rewritten (nothing is changed without --write)"
    print(f"{imports} imports in {files} files {done}, {missed} not mapped", file=sys.stderr)
    return 1 if missed else 0


def sources(paths: Sequence[Path]) -> Iterator[Path]:
    """The Python files that are meant: of folders all below them, but for what is hidden, environments, and links to
    folders."""
    for path in paths:
        if path.is_file():
            yield path
            continue
        for found in sorted(path.iterdir()):
            if found.is_dir():
                is_hidden = found.name.startswith((".", "__")) or found.is_symlink()
                if not is_hidden and not (found / "pyvenv.cfg").exists():
                    yield from sources([found])
            elif found.suffix == ".py":
                yield found


def _read(path: Path) -> bytes:
    if path.suffix == ".ipynb":  # whose JSON would be read as Python that imports nothing
        raise SyntaxError("a notebook is no Python source; save it as one")
    return path.read_bytes()


def _difference(path: Path, before: bytes, after: bytes) -> Iterator[str]:
    old, new = (text.decode("utf-8", "replace").splitlines(keepends=True) for text in (before, after))
    for line in difflib.unified_diff(old, new, str(path), str(path)):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


if __name__ == "__main__":
    sys.exit(main())
