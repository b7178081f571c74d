"""Runs scripts of SQL and dot commands against a database and writes their results.

Law: statements run one by one in their order and the first error ends the script; Ctrl-C ends the
statement that runs, never the process. Everything the interactive shell does goes through here too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow as pa

from ivm.database import Database
from ivm.session.results.result import Result
from ivm.shell.display.drawing import done, draw, is_plan, plan_lines
from ivm.shell.display.errors import report
from ivm.shell.display.output import Output
from ivm.shell.editing.script import ScriptPart, parts
from ivm.shell.stop import Stop
from ivm.shell.tail import follow
from ivm.sql.compile.explain_drawing import counted
from ivm.sql.statements.parse import Subscribe, parse
from ivm.storage.errors import InputError, IvmError, UnavailableError
from ivm.storage.identifiers import canonical_name
from ivm.storage.interrupts import NOTHING

_DEEPEST_READ = 16


@dataclass
class Settings:
    """The settings of `.mode` and `.timer`, and whether a person types.

    Attributes:
        mode: one of `drawing.MODES`.
        timer: show how long each statement took.
        talkative: a person types: statements without rows are reported too.
    """

    mode: str = "table"
    timer: bool = False
    talkative: bool = False


@dataclass(eq=False)
class Console:
    """A database, the streams for its results, and their format.

    Attributes:
        database: open; replaced by `.open`.
        path: the path it was opened by.
        output: for results.
        errors: for errors and notes.
        settings: the format of results.
        run_command: runs a line that begins with a dot.
        ended: `.quit` was run.
        interrupted: the last script ended by Ctrl-C.
    """

    database: Database
    path: str
    output: Output
    errors: Output
    settings: Settings
    run_command: Callable[[Console, str], bool]
    ended: bool = field(default=False, init=False)
    interrupted: bool = field(default=False, init=False)
    _depth: int = field(default=0, init=False)
    _statements: int = field(default=0, init=False)

    def run(self, script: str, source: str = "", lines_before: int = 0) -> bool:
        """Runs a script up to its end, its first error, or `.quit`.

        Args:
            script: SQL statements and dot commands; the last may lack its semicolon.
            source: name of the file it comes from, shown in errors; empty for typed text.
            lines_before: lines of the source that come before the script.

        Returns:
            Whether every statement succeeded.
        """
        if not self._depth:
            self.interrupted = False
        for part in parts(script):
            line = lines_before + script.count("\n", 0, part.offset) + 1
            if not self._run_part(part, f"{source}:{line}" if source else ""):
                return False
            if self.ended:
                break
        return True

    def read(self, path: Path) -> bool:
        """Runs a script file.

        Raises:
            InputError: it cannot be read, is not text, or scripts read each other without end.
        """
        if self._depth >= _DEEPEST_READ:
            raise InputError(f"{path} is read by itself over and over: take out a .read")
        script = script_text(path)
        start, before = time.perf_counter(), self._statements
        self._depth += 1
        try:
            return self.run(script, str(path))
        finally:
            self._depth -= 1
            if self.settings.talkative and not self._depth:
                done = counted(self._statements - before, "statement")
                self._note(f"{path}: {done}", time.perf_counter() - start)

    def query(self, text: str) -> None:
        """Runs a query and writes its rows."""
        self.show(self.database.execute(text), text)

    def show(self, result: Result, text: str = "") -> None:
        """Writes rows, of a query if its text is given."""
        self._show(result, result.arrow(), text)

    def replace(self, database: Database, path: str) -> None:
        """Closes the database and goes on with another one, which is open."""
        self.close()
        self.database, self.path = database, path

    def close(self) -> bool:
        """Rolls an open transaction back, reports that, and closes the database."""
        if self.database.in_transaction:
            self.database.execute("ROLLBACK")
            self.errors.line("The open transaction was rolled back; COMMIT keeps its changes.")
        self.database.close()
        return True

    def _run_part(self, part: ScriptPart, where: str) -> bool:
        def work() -> bool:
            if part.is_command:
                return self.run_command(self, part.text)
            return self._statement(part.text)

        return self.guarded(work, part.text, where)

    def guarded(self, work: Callable[[], bool], text: str = "", where: str = "") -> bool:
        """Calls `work`; writes an error or Ctrl-C in it, and then returns False.

        Args:
            work: returns whether it succeeded.
            text: the statement in which errors' positions count.
            where: its file and line.
        """
        aborted = self._aborted()
        try:
            return work()
        except (IvmError, duckdb.Error) as error:
            errors = self.errors
            errors.lines(report(error, text, errors.paint, where, errors.width))
        except KeyboardInterrupt as cut:
            self.interrupted = True
            outcome = [note for note in getattr(cut, "__notes__", ()) if note != NOTHING]
            self.errors.line(self.errors.paint("error", " ".join(["Cancelled.", *outcome])))
        if self._aborted() and not aborted:
            self.errors.line("The transaction was rolled back: ROLLBACK, then begin again.")
        return False

    def _aborted(self) -> bool:
        with suppress(UnavailableError):  # a closed database has no transaction
            return self.database.aborted is not None
        return False

    def _statement(self, text: str) -> bool:
        subscribed = _subscribed(text)
        if subscribed is not None:
            return self._subscribe(subscribed)
        start = time.perf_counter()
        result = self.database.execute(text)
        table = result.arrow() if result.kind == "rows" else None
        seconds = time.perf_counter() - start
        try:
            summary = done(result, table, text) or self._show(result, table, text)
        except KeyboardInterrupt as cut:
            cut.add_note("The statement is done; not all of its rows are shown.")
            raise
        self._statements += 1
        summed_up = self.settings.talkative and self._depth  # in one line at the script's end
        if (self.settings.timer or self.settings.talkative) and not summed_up:
            self._note(summary, seconds)
        return True

    def _subscribe(self, view: str) -> bool:
        """Writes the changes of a view until Ctrl-C, which is no error here."""
        with Stop() as stop, self.database.tail(view) as lines:
            follow(lines, self.output, stop)
        return True

    def _show(self, result: Result, table: pa.Table, text: str) -> str:
        """Writes rows and returns their count in words."""
        if is_plan(result, text):
            self.output.lines(plan_lines(table))
            return counted(table.num_rows, "row")
        zone = self.zone() if any("WITH TIME ZONE" in name for name in result.types) else None
        drawing = draw(result, table, self.settings.mode, self.output, zone)
        self.output.lines(drawing.lines)
        return drawing.summary

    def _note(self, text: str, seconds: float) -> None:
        """Reports a result, with its duration if the timer is on."""
        if self.settings.timer:
            text = f"{text} · {duration(seconds)}"
        self.notes.line(self.notes.paint("dim", text))

    @property
    def notes(self) -> Output:
        """The stream of remarks to a person, which are never mixed with data."""
        return self.output if self.output.is_terminal else self.errors

    def zone(self) -> str | None:
        """Returns the session's time zone."""
        row = self.database.execute("SELECT current_setting('TimeZone')").fetchone()
        return None if row is None else str(row[0])


def _subscribed(text: str) -> str | None:
    """The name of the view if a statement is SUBSCRIBE."""
    if text[:9].upper() != "SUBSCRIBE":  # comments before it are not part of the text
        return None
    [statement] = parse(text)
    return canonical_name(statement.name) if isinstance(statement, Subscribe) else None


def script_text(path: Path) -> str:
    """Reads a script file.

    Raises:
        InputError: it cannot be read or is not UTF-8 text.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"cannot read {path}: byte {error.start} is not UTF-8 text; is it a script?"
        ) from error


def duration(seconds: float) -> str:
    """Writes a duration as `0.42 ms` or `3.1 s`."""
    if seconds < 0.01:
        return f"{seconds * 1e3:.2f} ms"
    return f"{seconds * 1e3:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
