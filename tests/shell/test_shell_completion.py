"""Completion is a pure function of the text: the kinds that may follow, and their names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ivm.shell.editing.completion import Column, Vocabulary, suggest
from ivm.shell.editing.expected import expected_kinds
from ivm.shell.editing.scope import scope_of
from ivm.shell.prompt_adapters import vocabulary

NAMES = Vocabulary(
    tables={
        "orders": (
            Column("id", "BIGINT"),
            Column("customer_id", "BIGINT"),
            Column("amount", "DOUBLE"),
        ),
        "customers": (Column("id", "BIGINT"), Column("region", "VARCHAR")),
        "stage.Raw Data": (Column("select", "INTEGER"), Column("name", "VARCHAR")),
    },
    views={"revenue": (Column("region", "VARCHAR"), Column("total", "DOUBLE"))},
    functions=("count", "sum", "read_csv"),
    reserved=frozenset({"select"}),
    commands={".help": "this list", ".watch": "show a view", ".mode": "how results look"},
    sources={"clicks": "FILES", "my source": "KAFKA"},
    sinks={"feed": "FILES"},
)


def kinds(text: str) -> list[str]:
    return [expected.kind for expected in expected_kinds(text)]


def found(text: str) -> list[str]:
    """Suggestions at the bar in the text."""
    before, _, after = text.partition("|")
    return [suggestion.text for suggestion in suggest(before, after, NAMES)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "statement"),
        ("sel", "statement"),
        ("select 1; ", "statement"),
        ("select * from ", "relation"),
        ("select * from ord", "relation"),
        ("select * from orders o join ", "relation"),
        ("select * from orders, ", "relation"),
        ("select ", "column function"),
        ("select id, ", "column function"),
        ("select * from orders where ", "column function clause"),
        ("select * from orders group by id, ", "column function"),
        ("select * from orders ", "column function clause"),
        ("select o.", "column"),
        ("insert into ", "table"),
        ("insert into orders (", "column"),
        ("insert into orders (id, ", "column"),
        ("update ", "table"),
        ("update orders set ", "column"),
        ("drop materialized view ", "view"),
        ("drop materialized view if exists ", "view"),
        ("drop table if exists ", "table"),
        ("verify materialized view ", "view"),
        ("explain materialized view ", "view"),
        ("explain ", "statement"),
        ("create materialized view v as ", "statement"),
        ("create materialized view ", "clause"),
        ("create table t (a ", "type clause"),
        ("select cast(a as ", "type clause"),
        ("select a::", "type clause"),
        ("alter table t add column a ", "type clause"),
        ("select * from orders join customers using (", "column"),
        ("select * from (", "statement column function clause"),
        ("select 'a ", ""),
        ("select 1 -- a ", ""),
        ("-- sel", ""),
        ("select /* a ", ""),
        ("select * from 'da", "file"),
        ("select * from read_csv('", "file"),
        (".", "command"),
        (".wa", "command"),
        (".watch ", "view"),
        (".mode c", "word"),
        (".read ", "file"),
        (".tables ", ""),
        ("select 1;\n.wat", "command"),
        (".read it's.sql\n", "statement"),
        (".read it's.sql\nselect * from ", "relation"),
        ("select 1.", ""),
        ("select * from orders where amount > 1.5", ""),
        ("create source ", "word"),
        ("create source s ", "word"),
        ("create source s into ", "table"),
        ("create source s into t ", "word"),
        ("create source s into t from ", "word"),
        ("create source s into t from files (", "option"),
        ("create source s from kafka (topic 'x', ", "option"),
        ("create source s into t from files (format ", "value"),
        ("create source s into t from files (path '", "file"),
        ("create source s into t from files (path 'x')", ""),
        ("create sink k from ", "view"),
        ("create sink k from v into ", "word"),
        ("create sink k from v into files (", "option"),
        ("pause ", "word"),
        ("pause source ", "source"),
        ("resume sink ", "sink"),
        ("drop source if exists ", "source"),
        ("alter source s ", "word"),
        ("alter source s set ", "word"),
        ("alter source s set (", "option"),
        ("alter source s set position ", "word"),
        ("alter source s set position 'earliest'", ""),
        ("retry ", "word"),
        ("discard dead letters for ", "source"),
        (".sources st", "word"),
    ],
)
def test_kinds_that_may_follow(text: str, expected: str) -> None:
    assert " ".join(kinds(text)) == expected


def test_relations_after_from() -> None:
    assert found("select * from |")[:3] == ["revenue", "orders", "customers"]
    assert found("select * from cu|") == ["customers"]


def test_names_that_need_quotes_get_them() -> None:
    assert found("select * from sta|") == ['stage."Raw Data"']
    assert found('select * from stage."Raw Data" r where r.|') == ['"select"', "name"]


def test_a_dot_in_a_name_is_no_dot_between_names() -> None:
    names = Vocabulary(tables={'"a.b"': (Column("c", "INTEGER"),), 's."t.x"': ()})
    assert [s.text for s in suggest("from a", "", names)] == ['"a.b"']
    assert [s.text for s in suggest("from s.", "", names)] == ['"t.x"']
    assert [s.text for s in suggest('select "a.b".', ' from "a.b"', names)] == ["c"]


def test_columns_are_those_of_the_statements_relations() -> None:
    assert found("select re| from customers")[0] == "region"
    assert "amount" not in found("select | from customers")
    assert "amount" in found("select | from customers c join orders o on true")


def test_columns_after_an_alias() -> None:
    assert found("select o.| from orders o") == ["id", "customer_id", "amount"]
    assert found("select * from customers as c, orders where c.|") == ["id", "region"]
    assert found("select orders.a| from orders") == ["amount"]


def test_a_part_of_a_name_finds_it() -> None:
    assert found("select cust| from orders")[0] == "customer_id"
    assert found("select id| from orders") == ["customer_id"]


def test_keywords_follow_the_case_that_was_begun() -> None:
    assert "group by" in found("select * from orders gr|")
    assert "GROUP BY" in found("SELECT * FROM orders GR|")


def test_with_names_are_relations() -> None:
    assert found("with recent as (select 1) select * from rec|") == ["recent"]


def test_commands_and_their_arguments() -> None:
    assert found(".w|") == [".watch"]
    assert found(".watch |") == ["revenue"]
    assert found(".mode |") == ["table", "line", "csv", "json", "markdown"]
    assert found(".help .m|") == [".mode"]


def test_a_finished_word_is_not_offered_again() -> None:
    assert "orders" not in found("select * from orders|")


def test_only_views_can_be_dropped_as_views() -> None:
    assert found("drop materialized view |") == ["revenue"]


def test_kinds_and_options_of_sources_and_sinks() -> None:
    assert found("create source s into t from |")[:2] == ["FILES", "KAFKA"]
    assert found("create sink k from v into |")[:2] == ["FILES", "KAFKA"]
    assert found("create source s into t from files (|")[:2] == ["path", "format"]
    given = found("create source s into t from files (path 'in/*', settle 1, |")
    assert "format" in given
    assert not {"path", "settle"} & set(given)
    assert "'json appends'" in found("create source s into t from files (format |")
    assert found("create source s into t from files (skip_lost |") == ["TRUE", "FALSE"]
    assert found("alter source clicks set (pa|") == ["path"]
    assert found('alter source "My Source" set (br|') == ["brokers"]
    assert found("alter source nobody set (|") == []
    assert found("alter source clicks set position |") == ["'earliest'", "'latest'"]
    assert found("pause source |") == ["clicks", '"my source"']
    assert found("drop sink |") == ["feed", "IF EXISTS"]
    assert found("retry dead letters for cl|") == ["clicks"]


def test_suggestions_replace_the_word_alone() -> None:
    (suggestion,) = suggest("select * from cust", "", NAMES)
    assert suggestion.replaces == 4


@given(st.text(alphabet="selct from .;,()'\"$-/*\n\\aé", max_size=40))
def test_no_text_confuses_completion(text: str) -> None:
    for suggestion in suggest(text, "", NAMES):
        assert suggestion.replaces <= len(text)


def test_scope_reads_aliases_of_all_levels() -> None:
    scope = scope_of("select * from a x join s.b using (id) where id in (select 1 from c, d as y")
    assert scope.relations == {"x": "a", "b": "s.b", "c": "c", "y": "d"}


def test_reserved_words_are_duckdbs() -> None:
    functions, reserved = vocabulary()
    assert {"select", "from", "left"} <= reserved
    assert not {"name", "type", "date"} & reserved
    assert {"count", "read_csv", "strftime"} <= set(functions)


def test_the_formats_of_files_are_suggested_for_them_alone() -> None:
    of_files = found("CREATE SOURCE s INTO t FROM FILES (path 'x', format |")
    assert {"'maxwell'", "'csv'", "'parquet appends'"} <= {*of_files}
    assert "'csv'" not in found("CREATE SOURCE s FROM KAFKA (topic 'x', format |")
