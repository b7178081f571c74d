"""The running of sources as a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from ivm.cdc import stored_sources
from ivm.cdc.pipeline.open import forget_dropped, open_on_spark, refusal
from ivm.cdc.run_sources import run_sources
from ivm.cdc.source_job import WithSession
from ivm.cdc.sources.source import Position, Reader
from ivm.cdc.stored_sources import StoredSource
from ivm.engine.engine import Engine
from ivm.storage.errors import InputError, UnavailableError, UnsupportedError
from ivm.storage.identifiers import fold

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_SOURCES = """no source of this database can be read by a pipeline{why}. It is created once:
  CREATE SOURCE clicks INTO clicks FROM FILES (path '/lake/clicks/*.json', format 'debezium')
  CREATE SOURCE clicks FROM KAFKA (brokers 'localhost:9092', topic 'shop.public.clicks')"""


def run_pipeline(
    with_session: WithSession,
    engine: Engine,
    names: Collection[str] | None,
    spark: Callable[[], SparkSession],
) -> list[str]:
    """Runs sources by Spark, those of some names or all that a pipeline can read.

    Args:
        with_session: see `SourceJob`.
        engine: of the database.
        names: of the sources; None for all that can be read.
        spark: gives the prepared session.

    Returns:
        The names of the sources.

    Raises:
        InputError: there are none.
        UnsupportedError: a pipeline cannot read one that is named.
        UnavailableError: sources are run already, or there is no Spark.
    """
    if engine.warehouse.log is None:
        raise UnsupportedError("a pipeline needs a database in a file, beside which it has notes")
    if engine.jobs.runs("source"):
        raise UnavailableError("sources are run in this process already: db.stop_sources() first")
    every = with_session(stored_sources.load_all)
    chosen = _chosen(every, names)
    spark()  # what is lacking is told here and now
    engine.warehouse.demand_in_place()
    folder = engine.warehouse.log.folder / "pipeline"
    forget_dropped(folder, [stored.name for stored in every])

    def open(stored: StoredSource, positions: Mapping[str, Position]) -> Reader:
        return open_on_spark(stored, positions, spark, folder)

    found = [stored.name for stored in chosen]
    run_sources(with_session, engine, found, open)
    return found


def _chosen(every: Sequence[StoredSource], names: Collection[str] | None) -> list[StoredSource]:
    why = {stored.name: refusal(stored.definition) for stored in every}
    if names is None:
        found = [stored for stored in every if why[stored.name] is None]
        if not found:
            listed = "; ".join(f"{name}: {reason}" for name, reason in why.items())
            raise InputError(NO_SOURCES.format(why=f" ({listed})" if listed else ""))
        return found
    known = {stored.name: stored for stored in every}
    for name in map(fold, names):
        if name not in known:
            raise stored_sources.unknown(name, list(known))
        if why[name] is not None:
            raise UnsupportedError(
                f"a pipeline cannot read the source {name!r}: {why[name]}. `ivm ingest` runs it"
            )
    return [known[name] for name in dict.fromkeys(map(fold, names))]
