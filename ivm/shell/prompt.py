"""The interactive shell: a prompt with history, completion and colours around a console.

Law: Enter runs the text once every statement in it is closed, else it begins a new line; Ctrl-C
drops the text or ends the running statement, Ctrl-D leaves and rolls an open transaction back.
"""

from __future__ import annotations

import os
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from threading import Thread

import duckdb
from prompt_toolkit import PromptSession
from prompt_toolkit.application import create_app_session, get_app
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus, is_searching
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import ColorDepth, create_output
from prompt_toolkit.styles import Style

from ivm.database import Database
from ivm.shell.commands import COMMANDS, run_command
from ivm.shell.console import Console, Settings
from ivm.shell.display.output import colours_wanted, standard_error, standard_output
from ivm.shell.editing.completion import Vocabulary
from ivm.shell.editing.script import complete
from ivm.shell.listing import listed
from ivm.shell.open import MEMORY, title
from ivm.shell.prompt_adapters import SqlCompleter, SqlLexer, vocabulary
from ivm.shell.sources import Troubles
from ivm.sql.statements.own.users import without_passwords
from ivm.storage.errors import IvmError
from ivm.storage.versions import own_version

_WORDS = {"exit": ".quit", "quit": ".quit", "\\q": ".quit", "help": ".help", "\\h": ".help"}
"""Words that newcomers type, and the commands they mean."""

_STYLE = Style.from_dict(
    {
        "keyword": "bold ansiblue",
        "string": "ansigreen",
        "number": "ansicyan",
        "comment": "ansibrightblack",
        "command": "ansimagenta",
        "prompt": "bold",
        "continuation": "ansibrightblack",
    }
)


def interact_here(database: Database, path: str, mode: str) -> None:
    """Runs the shell on this terminal, and closes the database at the end.

    With standard output sent elsewhere (`ivm FILE > results`) the prompt is on standard error.
    """
    with create_app_session(output=create_output(always_prefer_tty=True)):
        interact(database, path, mode, owned=True)


def interact(
    database: Database, path: str = ":memory:", mode: str = "table", *, owned: bool = False
) -> None:
    """Runs the shell on an open database until the user leaves.

    Args:
        database: may be in use by other threads; their changes are seen (`.watch`).
        path: the path it was opened by, shown in the prompt.
        mode: the first format of results, one of `drawing.MODES`.
        owned: close the database at the end.
    """
    settings = Settings(mode, timer=True, talkative=True)
    output, errors = standard_output(), standard_error()
    console = Console(database, path, output, errors, settings, run_command)
    try:
        Shell(console).run()
    finally:
        if owned:
            console.guarded(console.close)


class Shell:
    """The prompt around a console."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._names = Vocabulary()
        self._read = False
        self._troubles = Troubles()
        self._vocabulary: Future[tuple[list[str], frozenset[str]]] = Future()
        self._prompt: PromptSession[str] = PromptSession(
            multiline=True,
            history=_history(),
            completer=SqlCompleter(self.names),
            complete_while_typing=True,
            reserve_space_for_menu=6,
            lexer=SqlLexer(),
            style=_STYLE,
            key_bindings=_keys(),
            prompt_continuation=_continuation,
            color_depth=None if colours_wanted() else ColorDepth.DEPTH_1_BIT,
        )

    def run(self) -> None:
        """Reads and runs statements until the user leaves."""
        self._greet()
        loading = Thread(target=lambda: self._vocabulary.set_result(vocabulary()), daemon=True)
        loading.start()
        while not self.console.ended:
            self._tell_troubles()
            try:
                text = self._prompt.prompt(self._message)
            except KeyboardInterrupt:
                continue
            except EOFError:
                break
            self._read = False
            with suppress(KeyboardInterrupt):  # after the statement that it could have ended
                self._run(_WORDS.get(_bare(text), text))

    def _run(self, text: str) -> None:
        text = text.encode(errors="replace").decode()  # bytes that are no UTF-8 can be typed
        self.console.guarded(lambda: self.console.run(text))

    def _tell_troubles(self) -> None:
        """Says what sources have failed with meanwhile, outside of transactions."""
        database, errors = self.console.database, self.console.errors
        if database.in_transaction or database.aborted:
            return
        with suppress(IvmError, duckdb.Error, KeyboardInterrupt):  # told before the next prompt
            for line in self._troubles.untold(database):
                errors.line(f"{errors.paint('error', 'Note:')} {line}")

    def _greet(self) -> None:
        path, notes = self.console.path, self.console.notes
        name = "in memory, gone when you leave" if path == MEMORY else path
        notes.line(f"{notes.paint('bold', f'ivm {own_version()}')} · {name}")
        notes.line(notes.paint("dim", "SQL ends with ; · .help shows more · Ctrl-D leaves"))

    def _message(self) -> FormattedText:
        database = self.console.database
        sign = "!>" if database.aborted else "*>" if database.in_transaction else ">"
        return FormattedText([("class:prompt", f"{title(self.console.path)}{sign} ")])

    def names(self) -> Vocabulary:
        """Returns the names to complete, read again after each statement.

        If they cannot be read, the last ones stay: the next statement reports the error.
        """
        if not self._read:
            self._read = True
            with suppress(IvmError, duckdb.Error):
                self._names = self._read_names()
        return self._names

    def _read_names(self) -> Vocabulary:
        database = self.console.database
        tables, views = listed(database)
        commands = {command.name: command.summary for command in COMMANDS}
        sources = self._names.sources  # a query would leave the transaction's fast path
        if not (database.in_transaction or database.aborted):
            sources = {source.name: source.kind for source in database.sources()}
        sinks = {sink.name: sink.kind for sink in database.sinks()}
        functions, reserved = self._vocabulary.result()
        return Vocabulary(tables, views, functions, reserved, commands, sources, sinks)


def _bare(text: str) -> str:
    return text.strip().rstrip(";").strip().lower()


def _continuation(width: int, line: int, wrapped: int) -> FormattedText:
    return FormattedText([("class:continuation", " " * width if wrapped else "-> ".rjust(width))])


class _Kept(FileHistory):
    """The history file, which holds no password."""

    def store_string(self, string: str) -> None:
        """Writes a text that was run."""
        super().store_string(without_passwords(string))


def _history() -> History:
    """Opens the history file, or a history of this session if the file cannot be written."""
    path = history_path()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        with path.open("a"):
            return _Kept(path)
    except OSError:
        return InMemoryHistory()


def history_path() -> Path:
    """Returns `$XDG_STATE_HOME/ivm/history`, by default under `~/.local/state`."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "ivm" / "history"


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @Condition
    def completing() -> bool:
        state = get_app().current_buffer.complete_state
        return state is not None and state.current_completion is not None

    typing = has_focus(DEFAULT_BUFFER) & ~is_searching

    @keys.add("enter", filter=typing & completing)
    def _take(event: KeyPressEvent) -> None:
        event.current_buffer.complete_state = None

    @keys.add("enter", filter=typing & ~completing)
    def _run_or_continue(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if complete(buffer.text) or _bare(buffer.text) in _WORDS:
            buffer.validate_and_handle()
        else:
            buffer.newline(copy_margin=False)  # typed-in text keeps its own indentation

    return keys
