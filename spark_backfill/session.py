"""Spark sessions: the settings without which Spark's answers would not be DuckDB's.

Invariant: a session that the others here are given counts overflow and a bad cast as errors (ANSI),
has UTC as its time zone, leaves dates as they stand in files, and `${…}` as it stands in a text.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ivm.storage.errors import InputError, UnavailableError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REQUIRED = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.variable.substitute": "false",
    "spark.sql.execution.arrow.useLargeVarTypes": "true",
}
"""Settings of a running session, which an existing one is given too."""
_LOCAL = {
    "spark.master": "local[*]",
    "spark.app.name": "ivm",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
}
ENDED = "the Java process has ended"
_LEAST_MEMORY = 64 << 20
_A_MOMENT = 0.5
_RAISED = re.compile(r"^[\w.]+(?:Error|Exception): ")
_GREETING = ("Using Spark's default log4j", "WARNING: ", "Setting default log", "To adjust logging")
_COLON = re.compile("Relative path in absolute URI: (.+)")  # so Hadoop says that a name has one
_starting = threading.Lock()
_JAVA = "Spark 4 needs Java 17 or 21: on Debian or Ubuntu `apt-get install openjdk-17-jre-headless`"


def start(options: Mapping[str, str]) -> SparkSession:
    """Starts a Spark session, or takes the one that runs in this process.

    Args:
        options: Spark's settings by name, beside those of a session on this machine.

    Raises:
        UnavailableError: PySpark or Java is missing, or Spark does not start.
    """
    sessions = _pyspark()
    # We use none of what PySpark does with pandas.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    # Each error is raised as well, and its words reach the user.
    for name in ("SQLQueryContextLogger", "py4j"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_not_py4js)  # which logs some in nobody's name
    if "spark.remote" in options:
        return _configured(sessions, {**options, **REQUIRED})
    with _starting:
        _start_jvm({**_LOCAL, **options, **REQUIRED})
    return _configured(sessions, REQUIRED)


def _is_not_py4js(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts


def _configured(sessions: type[SparkSession], options: Mapping[str, str]) -> SparkSession:
    builder = sessions.builder
    for name, value in options.items():
        builder = builder.config(name, value)
    try:
        return prepared(builder.getOrCreate())
    except Exception as error:
        raise UnavailableError(f"Spark does not start: {words_of(error)}") from error


def _start_jvm(options: Mapping[str, str]) -> None:
    """Starts Spark in this process, if it does not run; its log is shown only where it fails.

    Raises:
        UnavailableError: there is no Java, or Spark does not start.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._active_spark_context is not None:
        if _lives():
            return
        _forget_dead()
    _demand_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    conf = SparkConf().setAll(list(options.items()))
    with tempfile.TemporaryFile(prefix="ivm-spark-") as log:  # the JVM keeps it open
        try:
            gateway = launch_gateway(  # type: ignore[no-untyped-call]
                conf, popen_kwargs={"stderr": log}
            )
            SparkContext(conf=conf, gateway=gateway)
        except Exception as error:
            log.seek(0)
            said = words_of(error) if "java" in str(error) else _last_words(log.read())
            raise UnavailableError(f"Spark does not start: {said}") from error


def _lives(seconds: float = 0) -> bool:
    """Whether the JVM of this process's Spark runs still; one that others started is taken to.

    Args:
        seconds: to wait for its end: its connections are cut a moment before that.
    """
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is not None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
            return False
    return True


def _forget_dead() -> None:
    """Lets PySpark forget a JVM that was killed, so that another one can be started.

    In public there is only `stop`, which asks the JVM.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    SparkContext._active_spark_context = None
    SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = None


def _last_words(log: bytes) -> str:
    """The last that the JVM has said, without its greeting and the places in Spark's code."""
    lines = [line.strip() for line in log.decode(errors="replace").splitlines()]
    told = [line for line in lines if line and not line.startswith(("at ", *_GREETING))]
    return "\n".join(told[-5:]) or f"{ENDED} without a word"


def words_of(error: BaseException) -> str:
    """What an error says, without the places in Spark's code."""
    if not _lives(_A_MOMENT):
        return ENDED
    text = str(error)
    lines = [line.strip() for line in text.splitlines()]
    if named := _COLON.search(text):
        return f"it reads no folder in which a name has a colon: rename {named[1].strip()!r} there"
    raised = [i for i, line in enumerate(lines) if _RAISED.match(line)]
    if "Traceback (most recent call last)" in text and raised:
        said = lines[raised[-1] :]  # what a worker's Python has raised
        files = [f"({line})" for line in said if line.startswith("file = ")]
        return _RAISED.sub("", " ".join([*itertools.takewhile(bool, said), *files]))
    kept = [line for line in lines if line and not line.startswith("at ")]
    return " ".join(kept[:3]).rstrip(".")


@contextlib.contextmanager
def asking() -> Iterator[None]:
    """Around calls of Spark's; errors of our own pass.

    Raises:
        UnavailableError: Spark fails, or is gone.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError, OSError) as error:
        raise UnavailableError(f"Spark: {words_of(error)}") from error


def prepared(session: SparkSession) -> SparkSession:
    """The session, with the settings that our queries need."""
    for name, value in REQUIRED.items():
        session.conf.set(name, value)
    return session


def worker_memory(session: SparkSession) -> int:
    """The bytes that DuckDB may take in a Python worker; see `worker_share`."""
    return worker_share(lambda name, default: session.conf.get(name, default) or default)


def worker_share(setting: Callable[[str, str], str]) -> int:
    """The bytes that DuckDB may take in a Python worker; beyond them it spills.

    That is half of a task's part of the memory that Spark gives to Python, or else to the executor
    (on one machine to the driver); the other half is for our kernels and batches of Arrow.

    Args:
        setting: a setting of Spark's by name, or the default that is given.
    """
    local = re.match(r"local(?:\[(\d+|\*))?", setting("spark.master", "local[1]"))
    whole = setting(f"spark.{'driver' if local else 'executor'}.memory", "1g")
    whole = setting("spark.executor.pyspark.memory", whole)
    cores = (local[1] or "1") if local else setting("spark.executor.cores", "*")
    tasks = (os.cpu_count() or 1) if cores == "*" else int(cores)
    return max(bytes_of(whole) // (2 * tasks), _LEAST_MEMORY)


def bytes_of(size: str) -> int:
    """The bytes of a size as Spark spells it, such as `512m`; a bare number counts MiB.

    Raises:
        InputError: it is no size.
    """
    found = re.fullmatch(r"\s*(\d+)\s*([kmgtp]?)i?b?\s*", size.lower())
    if found is None:
        raise InputError(f"Spark has a size {size!r} in its settings: write it like '512m' or '8g'")
    return int(found[1]) << (10 * ("kmgtp".index(found[2] or "m") + 1))


def _pyspark() -> type[SparkSession]:
    try:
        import pandas  # noqa: F401 (without it PySpark refuses to send batches of Arrow)
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise UnavailableError(
            f"Spark needs PySpark ({error}): pip install 'ivmdb[spark]'"
        ) from error
    return SparkSession


def can_start(options: Mapping[str, str]) -> bool:
    """Whether what a session needs is installed here: PySpark, and Java unless Spark is remote."""
    if importlib.util.find_spec("pyspark") is None:
        return False
    return "spark.remote" in options or _has_java()


def _has_java() -> bool:
    home = os.environ.get("JAVA_HOME")
    return bool((home and (Path(home) / "bin" / "java").exists()) or shutil.which("java"))


def _demand_java() -> None:
    if not _has_java():
        raise UnavailableError(f"Spark finds no Java. {_JAVA}")
