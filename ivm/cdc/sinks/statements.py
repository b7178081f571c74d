"""The statements on sinks; the functions run them, by kind of statement."""

from __future__ import annotations

from dataclasses import fields

import pyarrow as pa

from ivm.cdc.sinks import stored_sinks
from ivm.cdc.sinks.kinds import KINDS
from ivm.cdc.sinks.run_sinks import SinkInfo, list_sinks
from ivm.cdc.sources.definition import define
from ivm.cdc.statements import created, told_where
from ivm.ingest.parameters import Params
from ivm.session.results.result import Result
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.storage.identifiers import canonical_name

_COLUMNS = [field.name for field in fields(SinkInfo)]
_NUMBERS = ("acknowledged", "lag_epochs", "lag_rows")


def create(session: Session, statement: st.CreateSink, params: Params) -> Result:
    """Runs CREATE SINK."""
    with told_where(statement):
        definition = define(KINDS, statement.kind, dict(statement.options))
    stored_sinks.create(
        session,
        statement.name,
        canonical_name(statement.view),
        definition,
        if_not_exists=statement.if_not_exists,
    )
    return created(session, "sink")


def change(session: Session, statement: st.ChangeSink, params: Params) -> Result:
    """Runs PAUSE, RESUME and DROP SINK."""
    if statement.action == "drop":
        stored_sinks.drop(session, statement.name, if_exists=statement.if_exists)
    else:
        stored_sinks.set_paused(session, statement.name, statement.action == "pause")
    return Result("done")


def show(session: Session, statement: st.ShowSinks, params: Params) -> Result:
    """Runs SHOW SINKS."""
    found = list_sinks(session)
    types = ["BIGINT" if name in _NUMBERS else "VARCHAR" for name in _COLUMNS]
    columns = {
        name: pa.array(
            [getattr(sink, name) for sink in found],
            pa.int64() if type == "BIGINT" else pa.string(),
        )
        for name, type in zip(_COLUMNS, types, strict=True)
    }
    return Result.of_table(pa.table(columns), types)
