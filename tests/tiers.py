"""How much a test run does: `quick` some in minutes, `full` all, `fuzz` far more, with new seeds.

`IVM_TESTS` names the tier (`make test`, `make test-all`, `make fuzz` and `make torture`); plain
pytest is `full`. `IVM_SEED` is the first seed of all that the torture tests draw. A quick run
leaves out what `WHOLE` names, which drives whole databases for long, takes some of the cases
of the tests in `SAMPLED` and of the corpora of queries, and draws fewer examples everywhere else.
`smoke` is for a wheel whose code has passed a quick run: in the sizes of `quick`, what depends on
how the package is installed, and some cases of what `quick` leaves out (`SMOKE`). Nothing is in
quick or smoke that is not in full.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

TIERS = ("smoke", "quick", "full", "fuzz")
RUN = os.environ.get("IVM_TESTS", "full")
if RUN not in TIERS:
    raise ValueError(f"IVM_TESTS is {RUN!r}: use one of {', '.join(TIERS)}")
TIER = "quick" if RUN == "smoke" else RUN
"""The tier by which tests choose their sizes."""
SEED = int(os.environ.get("IVM_SEED", "0"))

WHOLE = frozenset(
    {
        "test_attached",
        "test_benchmarks",
        "test_broken_cases",
        "test_broken_streams",
        "test_callbacks",
        "test_concurrency",
        "test_crash",
        "test_ddl_in_transactions",
        "test_ddl_sessions",
        "test_debezium",
        "test_debezium_benchmark",
        "test_debezium_cases::test_case",
        "test_debezium_kills",
        "test_delta_tables",
        "test_every_aggregate",
        "test_examples",
        "test_exceptions",
        "test_files_killed",
        "test_ingest::test_killed_processes_lose_and_double_nothing",
        "test_ingest_command::test_a_live_panel",
        "test_ingest_command::test_a_panel_without_colours_on_a_narrow_terminal",
        "test_ingest_command::test_a_reader_that_leaves_ends_the_output_alone",
        "test_ingest_command::test_a_second_process_gets_a_clear_error",
        "test_ingest_command::test_a_terminal_without_escape_sequences_gets_lines",
        "test_ingest_command::test_files_that_grow_and_come_meanwhile",
        "test_ingest_command::test_kill_9_in_the_middle_loses_nothing",
        "test_iceberg_tables",
        "test_jdbc",
        "test_kafka::test_a_compacted_topic_has_gaps_that_are_none",
        "test_kafka::test_partitions_are_added",
        "test_kafka_faults",
        "test_kafka_sinks::test_a_sink_and_a_source_of_many_rows",
        "test_kafka_sinks::test_a_view_without_a_key_keeps_its_order",
        "test_kafka_sinks::test_every_epoch_is_there_once",
        "test_kafka_sinks::test_what_the_topic_has_is_left_out",
        "test_kills",
        "test_names",
        "test_names_in_ddl",
        "test_net_changes::test_a_view_taken_along_takes_each_change_once_after_a_crash",
        "test_nexmark",
        "test_postgres_benchmark",
        "test_random_alters",
        "test_random_queries",
        "test_random_streams",
        "test_recovery::test_a_lost_side_folder_is_noticed",
        "test_recovery::test_views_ahead_of_the_tables_survive_a_crash_around_a_checkpoint",
        "test_recursion::test_recursive_views_derived_anew_follow_their_tables",
        "test_settings::test_a_file_keeps_its_zone_in_other_places",
        "test_shell::test_no_color_is_heeded",
        "test_shell::test_tab_completes_and_enter_takes_the_completion",
        "test_shell::test_tables_are_coloured_and_cut_on_a_terminal",
        "test_shell::test_watch_on_a_terminal",
        "test_shell_sources::test_a_session_beside_a_running_source",
        "test_shell_sources::test_troubles_are_told_before_the_next_prompt",
        "test_sink_crash",
        "test_sinks::test_the_deltas_add_up_to_the_views",
        "test_source::test_a_table_is_added_while_the_stream_goes_on",
        "test_source::test_large_transactions_are_one_epoch",
        "test_source_job::test_kill_9_loses_and_doubles_nothing",
        "test_backfill::test_a_change_that_the_log_lacks_begins_it_anew",
        "test_backfill::test_a_change_on_which_the_view_fails_breaks_it",
        "test_backfill::test_closed_in_the_middle_it_goes_on_where_it_was",
        "test_backfill::test_definitions_below_the_view_change_meanwhile",
        "test_backfill::test_dropped_replaced_or_refreshed_meanwhile",
        "test_backfill::test_views_of_every_kind_and_over_each_other",
        "test_backfill_command",
        "test_backfill_killed",
        "test_spark_random",
        "test_spark_tpch",
        "test_spelling",
        "test_suites",
        "test_tail::test_a_reader_that_leaves_ends_it_quietly",
        "test_tpch",
        "test_tpch_subqueries",
        "test_upstream_faults",
        "test_waiting_statements",
        "test_warehouse::test_our_own_crash_is_no_foreign_write",
    }
)
"""Modules and tests of the full tier alone."""

SAMPLED = {
    "test_bind::test_rendered_plan_is_the_query": 8,
    "test_broken_views::test_reading_a_broken_view": 2,
    "test_broken_views::test_the_mark_survives": 2,
    "test_backfill::test_a_fill_that_has_failed_leaves_nothing_once_its_view_is_otherwise_there": 3,
    "test_backfill::test_changes_that_come_meanwhile_are_there_once": 4,
    "test_carriers::test_values_come_back": 8,
    "test_capture::test_delete": 3,
    "test_capture::test_insert_on_conflict": 3,
    "test_capture::test_merge": 3,
    "test_capture::test_update": 3,
    "test_carried::test_no_change_brings_such_a_value": 3,
    "test_carried::test_no_table_is_made_with_such_a_value": 4,
    "test_cli::test_odd_streams": 5,
    "test_collations::test_a_view_beside_a_collation_follows_its_tables": 9,
    "test_collations::test_groups_by_a_collation_show_their_first_text": 4,
    "test_connect_types::test_numbers_keep_their_digits": 3,
    "test_conversions::test_python_values_mean_what_duckdb_makes_of_them": 2,
    "test_conversions::test_what_is_converted_is_what_duckdb_makes_of_it": 6,
    "test_database::test_structs_inside_of_structs_and_tuples_can_be_columns": 3,
    "test_determinism::test_functions_of_the_tables_pass": 5,
    "test_docs::test_construct_is_maintained_as_said": 4,
    "test_fast_path::test_defaults_are_those_of_duckdb": 2,
    "test_error_tree::test_values": 4,
    "test_every_type::test_every_way_in": 2,
    "test_failed_statements::test_a_failing_cast_is_told_as_duckdb_tells_it": 3,
    "test_fill::test_values_around_a_change_are_filled_anew": 8,
    "test_flush::test_every_value_of_a_type_is_deleted_alone": 5,
    "test_flush::test_one_row_of_any_type_is_updated_and_deleted_by_its_key": 4,
    "test_from_items::test_of_equal_right_rows_an_asof_join_takes_the_first": 2,
    "test_hydration::test_a_view_stands_and_follows": 3,
    "test_imports::test_what_was_exported_is_imported": 2,
    "test_json_rows::test_strategy": 4,
    "test_json_rows::test_views_follow_their_documents": 2,
    "test_keyed_changes::test_anything_else_is_left_to_duckdb": 4,
    "test_keyed_changes::test_one_row_by_its_key_needs_no_duckdb": 4,
    "test_keyed_changes::test_what_duckdb_refuses_is_refused": 3,
    "test_keys::test_group_as_duckdb_groups": 4,
    "test_keys::test_order_as_duckdb_orders": 4,
    "test_keys::test_same_key_and_codes_follow_the_classes": 4,
    "test_known_keys::test_lines_mean_the_same_alone_and_together": 3,
    "test_lambda_names::test_a_name_in_a_lambda_means_what_it_means_to_duckdb": 3,
    "test_left_open::test_texts": 4,
    "test_left_open::test_what_is_fixed_is_the_same_in_every_order": 3,
    "test_log::test_every_type_comes_back_bit_for_bit": 3,
    "test_macros::test_what_would_break_a_view_is_refused": 3,
    "test_odd_calls::test_each_given_row_takes_out_one": 2,
    "test_odd_calls::test_rows": 2,
    "test_aggregate::test_each_type_follows_duckdb": 3,
    "test_join::test_join_keys_of_any_type": 3,
    "test_range_join::test_compared_values_of_any_type": 3,
    "test_range_join::test_null_as_no_bound": 3,
    "test_row_aggregates::test_modes_and_histograms_of_all_rows": 3,
    "test_row_aggregates::test_quantiles": 2,
    "test_row_aggregates::test_quantiles_by_rank": 2,
    "test_row_aggregates::test_rows_of_any_type": 4,
    "test_ingest_command::test_a_signal_in_the_middle_loses_nothing": 2,
    "test_ingest_command::test_the_panel_fits_the_terminal": 2,
    "test_source_statements::test_errors_have_their_place": 2,
    "test_set_operations::test_follows_duckdb": 3,
    "test_topk::test_follows_duckdb": 3,
    "test_unnest::test_elements_of_every_type": 3,
    "test_window::test_distances": 2,
    "test_window::test_distinct_values_of_frames": 4,
    "test_window::test_frames": 5,
    "test_window::test_frames_with_a_value": 3,
    "test_window::test_functions_left_to_duckdb": 4,
    "test_window::test_lag_and_lead": 3,
    "test_window::test_months_away": 3,
    "test_window::test_ranks": 4,
    "test_recovery::test_what_another_program_wrote_and_the_log_stand_together_if_they_can": 3,
    "test_recursion::test_recursive_views_follow_their_tables": 2,
    "test_recursion::test_recursive_views_of_a_database": 2,
    "test_refused_rows::test_a_refused_row": 2,
    "test_rewrite::test_rewritten_plan_is_the_query": 8,
    "test_arithmetic::test_constants_and_signs": 3,
    "test_arithmetic::test_operator_on_one_type": 3,
    "test_arithmetic::test_operators_on_mixed_types": 4,
    "test_cast::test_cast": 4,
    "test_comparison::test_every_pair": 4,
    "test_schema_names::test_a_name_that_comes_later_is_followed": 3,
    "test_schema_names::test_a_view_over_a_plain_view_of_a_schema": 2,
    "test_shadows::test_views_hold_what_other_sessions_read": 3,
    "test_transactions::test_rows_of_before_and_of_the_transaction_are_changed": 3,
    "test_sink_types::test_values_come_back": 8,
    "test_sinks::test_the_deltas_add_up_to_the_views": 2,
    "test_unpivot_names::test_nulls_are_dropped_as_duckdb_does": 3,
    "test_user_macros::test_the_life_of_a_database_in_which_every_name_is_a_macro": 2,
    "test_windows::test_excluded_peers_are_those_of_the_windows_own_order": 3,
    "test_with_ties::test_the_first_rows_and_their_ties": 4,
}
"""Tests with many cases alike, by module and function: a quick run takes the first of so many."""

SMOKE = {
    "test_attached": 1,
    "test_benchmarks": 8,
    "test_broken_cases": 12,
    "test_broken_streams": 4,
    "test_callbacks": 3,
    "test_cli": 1,
    "test_concurrency": 1,
    "test_crash": 5,
    "test_ddl_in_transactions": 1,
    "test_ddl_sessions": 1,
    "test_debezium": 2,
    "test_debezium_benchmark": 1,
    "test_debezium_cases::test_case": 9,
    "test_debezium_kills": 2,
    "test_docs": 2,
    "test_delta_tables": 0,
    "test_iceberg_tables": 0,
    "test_every_aggregate": 12,
    "test_examples": 1,
    "test_exceptions": 4,
    "test_files_killed": 1,
    "test_functions": 1,
    "test_ingest::test_killed_processes_lose_and_double_nothing": 1,
    "test_ingest_command::test_a_live_panel": 1,
    "test_ingest_command::test_a_panel_without_colours_on_a_narrow_terminal": 1,
    "test_ingest_command::test_a_reader_that_leaves_ends_the_output_alone": 1,
    "test_ingest_command::test_a_second_process_gets_a_clear_error": 1,
    "test_ingest_command::test_a_terminal_without_escape_sequences_gets_lines": 1,
    "test_ingest_command::test_files_that_grow_and_come_meanwhile": 1,
    "test_ingest_command::test_kill_9_in_the_middle_loses_nothing": 1,
    "test_invariant": 1,
    "test_jdbc": 0,
    "test_kafka::test_a_compacted_topic_has_gaps_that_are_none": 1,
    "test_kafka::test_partitions_are_added": 1,
    "test_kafka_faults": 2,
    "test_kafka_sinks::test_a_sink_and_a_source_of_many_rows": 1,
    "test_kafka_sinks::test_a_view_without_a_key_keeps_its_order": 1,
    "test_kafka_sinks::test_every_epoch_is_there_once": 1,
    "test_kafka_sinks::test_what_the_topic_has_is_left_out": 1,
    "test_kills": 1,
    "test_layers": 1,
    "test_names": 2,
    "test_names_in_ddl": 12,
    "test_net_changes::test_a_view_taken_along_takes_each_change_once_after_a_crash": 1,
    "test_nexmark": 3,
    "test_postgres_benchmark": 1,
    "test_random_alters": 1,
    "test_random_queries": 8,
    "test_random_streams": 1,
    "test_recovery": 3,
    "test_recovery::test_a_lost_side_folder_is_noticed": 1,
    "test_recovery::test_views_ahead_of_the_tables_survive_a_crash_around_a_checkpoint": 1,
    "test_recursion::test_recursive_views_derived_anew_follow_their_tables": 4,
    "test_settings::test_a_file_keeps_its_zone_in_other_places": 1,
    "test_shell::test_no_color_is_heeded": 1,
    "test_shell::test_tab_completes_and_enter_takes_the_completion": 1,
    "test_shell::test_tables_are_coloured_and_cut_on_a_terminal": 1,
    "test_shell::test_watch_on_a_terminal": 1,
    "test_shell_script": 1,
    "test_shell_sources::test_a_session_beside_a_running_source": 1,
    "test_shell_sources::test_troubles_are_told_before_the_next_prompt": 1,
    "test_sink_crash": 9,
    "test_sinks::test_the_deltas_add_up_to_the_views": 1,
    "test_source::test_a_table_is_added_while_the_stream_goes_on": 1,
    "test_source::test_large_transactions_are_one_epoch": 1,
    "test_source_job::test_kill_9_loses_and_doubles_nothing": 1,
    "test_backfill::test_a_change_that_the_log_lacks_begins_it_anew": 1,
    "test_backfill::test_a_change_on_which_the_view_fails_breaks_it": 1,
    "test_backfill::test_closed_in_the_middle_it_goes_on_where_it_was": 1,
    "test_backfill::test_definitions_below_the_view_change_meanwhile": 1,
    "test_backfill::test_dropped_replaced_or_refreshed_meanwhile": 1,
    "test_backfill::test_views_of_every_kind_and_over_each_other": 1,
    "test_backfill_command": 3,
    "test_backfill_killed": 9,
    "test_spark_random": 1,
    "test_spark_tpch": 1,
    "test_spelling": 12,
    "test_suites": 1,
    "test_tail::test_a_reader_that_leaves_ends_it_quietly": 1,
    "test_tpch": 4,
    "test_tpch_subqueries": 4,
    "test_upstream_faults": 6,
    "test_waiting_statements": 1,
    "test_warehouse::test_our_own_crash_is_no_foreign_write": 1,
}
"""Modules and tests of a smoke run, which takes the first of so many cases of each test: all that
`WHOLE` names, and what reads the package's files, starts processes or opens files anew."""

FIRST = (
    "test_random_queries",
    "test_exceptions",
    "test_interrupts",
    "test_spelling",
    "test_names_in_ddl",
    "test_crash",
    "test_ddl_in_transactions",
    "test_detours",
    "test_recovery",
    "test_cli",
    "test_shell",
    "test_waiting_statements",
    "test_deep_expressions",
    "test_every_type",
    "test_invariant",
    "test_sessions",
    "test_closing",
    "test_shadows",
    "test_names",
    "test_hydration",
)
"""Modules that take long and start first: the last ones decide how long a worker is left alone."""


def taken(module: str, function: str, turn: int) -> bool:
    """Whether this run takes the case of a test that stands at this place among its cases."""
    names = (f"{module}::{function}", module)
    sampled = turn % SAMPLED.get(names[0], 1) == 0
    if RUN == "smoke":
        every = next((SMOKE[name] for name in names if name in SMOKE), 0)
        return every > 0 and turn % every == 0 and sampled
    return RUN != "quick" or (WHOLE.isdisjoint(names) and sampled)


def some(cases: Sequence[T], of: int = 4) -> Sequence[T]:
    """The cases that a run takes: the first of so many in a quick one."""
    return cases[::of] if TIER == "quick" else cases


def examples(few: int) -> int:
    """How many examples a property test draws that draws `few` in a full run."""
    return {"quick": max(2, few // 8), "full": few, "fuzz": 10 * few}[TIER]


def seeds(count: int) -> range:
    """So many seeds, the same in every process of a run."""
    return range(SEED, SEED + count)
