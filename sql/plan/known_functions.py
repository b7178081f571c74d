"""What is known of each of DuckDB's own functions: whether its value is fixed by its arguments.

Law: this is our own knowledge, of every function of the releases that this program works with; what
DuckDB says of its functions differs between builds that compute the same. A function that is not
here has come with a build that nobody has looked at: it counts as one whose value may change.
Limit: the functions of extensions that are no part of DuckDB are judged by what DuckDB says of
them.
"""

from __future__ import annotations

import functools

from ivm.sql.plan.built_in import FACTS
from ivm.storage.identifiers import fold
from ivm.storage.warehouse.duckdb.duck import rows

_FAMILIES = ("collate_", "icu_collate_", "__internal_")
"""What the names of functions begin with that are many and alike, and fixed by their arguments."""

_FIXED = frozenset(
    [
        "!=", "!__postfix", "!~~", "!~~*", "%", "&", "&&", "*", "**", "+", "-", "->>", "/", "//",
        "<", "<->", "<<", "<=", "<=>", "<@", "=", ">", ">=", ">>", "@", "@>", "^", "^@", "|", "||",
        "~", "~~", "~~*", "~~~", "is distinct from", "is not distinct from",
        "__between", "__cast", "abs", "acos", "acosh", "add", "age", "aggregate", "alias", "apply",
        "array_aggr", "array_aggregate", "array_apply", "array_cat", "array_concat",
        "array_contains", "array_cosine_distance", "array_cosine_similarity", "array_cross_product",
        "array_distance", "array_distinct", "array_dot_product", "array_extract", "array_filter",
        "array_grade_up", "array_has", "array_has_all", "array_has_any", "array_indexof",
        "array_inner_product", "array_intersect", "array_length", "array_negative_dot_product",
        "array_negative_inner_product", "array_position", "array_reduce", "array_resize",
        "array_reverse_sort", "array_select", "array_slice", "array_sort", "array_to_json",
        "array_transform", "array_unique", "array_value", "array_where", "array_zip", "ascii",
        "asin", "asinh", "atan", "atan2", "atanh", "bar", "base64", "bin", "binom", "bit_count",
        "bit_length", "bit_position", "bitstring", "bitstring_byte_comparable",
        "can_cast_implicitly", "cardinality", "cast_to_type", "cbrt", "ceil", "ceiling", "century",
        "char_length", "character_length", "chr", "combine", "concat", "concat_ws",
        "constant_or_null", "contains", "cos", "cosh", "cot", "create_sort_key",
        "damerau_levenshtein", "date_diff", "date_part", "date_sub", "date_trunc", "datediff",
        "datepart", "datesub", "datetrunc", "day", "dayname", "dayofmonth", "dayofweek",
        "dayofyear", "decade", "decimal_division", "decode", "degrees", "divide", "editdist3",
        "element_at", "encode", "ends_with", "enum_code", "enum_first", "enum_last", "enum_range",
        "enum_range_boundary", "epoch", "epoch_ms", "epoch_ns", "epoch_us", "equi_width_bins",
        "era", "even", "exp", "factorial", "filter", "finalize", "flatten", "floor", "fmod",
        "format", "format_bytes", "formatreadabledecimalsize", "formatreadablesize", "from_base64",
        "from_binary", "from_hex", "from_json", "from_json_strict", "gamma", "gcd",
        "generate_series", "get_bit", "get_type", "grade_up", "greatest", "greatest_common_divisor",
        "hamming", "hash", "hex", "hive_partition_component", "hour", "icu_sort_key",
        "ilike_escape", "index_key", "instr", "invoke", "is_histogram_other_bin", "isfinite",
        "isinf", "isnan", "isodow", "isoyear", "jaccard", "jaro_similarity",
        "jaro_winkler_similarity", "json_array", "json_array_length", "json_contains",
        "json_deep_merge", "json_deserialize_sql", "json_exists", "json_extract",
        "json_extract_path", "json_extract_path_text", "json_extract_string", "json_insert",
        "json_keys", "json_merge_patch", "json_merge_patch_diff", "json_normalize", "json_object",
        "json_pretty", "json_quote", "json_remove", "json_replace", "json_serialize_sql",
        "json_set", "json_strip_nulls", "json_structure", "json_transform", "json_transform_strict",
        "json_type", "json_valid", "json_value", "julian", "last_day", "lcase", "lcm", "least",
        "least_common_multiple", "left", "left_grapheme", "len", "length", "length_grapheme",
        "levenshtein", "lgamma", "like_escape", "list_aggr", "list_aggregate", "list_apply",
        "list_cat", "list_concat", "list_contains", "list_cosine_distance",
        "list_cosine_similarity", "list_distance", "list_distinct", "list_dot_product",
        "list_element", "list_extract", "list_filter", "list_grade_up", "list_has", "list_has_all",
        "list_has_any", "list_indexof", "list_inner_product", "list_intersect",
        "list_negative_dot_product", "list_negative_inner_product", "list_pack", "list_position",
        "list_reduce", "list_resize", "list_reverse_sort", "list_select", "list_slice", "list_sort",
        "list_transform", "list_unique", "list_value", "list_where", "list_zip", "ln", "log",
        "log10", "log2", "lower", "lpad", "ltrim", "make_date", "make_time", "make_timestamp",
        "make_timestamp_ms", "make_timestamp_ns", "make_timestamptz", "make_type", "map",
        "map_concat", "map_contains", "map_entries", "map_extract", "map_extract_value",
        "map_from_entries", "map_keys", "map_values", "md5", "md5_number", "microsecond",
        "millennium", "millisecond", "minute", "mismatches", "mod", "month", "monthname",
        "multiply", "nanosecond", "nextafter", "nfc_normalize", "normalized_interval",
        "not_ilike_escape", "not_like_escape", "octet_length", "ord", "overlay", "parse_dirname",
        "parse_dirpath", "parse_duckdb_log_message", "parse_filename", "parse_formatted_bytes",
        "parse_path", "path_join", "pi", "position", "pow", "power", "prefix", "printf", "quarter",
        "radians", "range", "reduce", "regexp_escape", "regexp_extract", "regexp_extract_all",
        "regexp_full_match", "regexp_matches", "regexp_replace", "regexp_split_to_array",
        "remap_struct", "repeat", "replace", "replace_type", "reverse", "right", "right_grapheme",
        "round", "round_even", "roundbankers", "row", "row_to_json", "rpad", "rtrim", "second",
        "set_bit", "sha1", "sha256", "sign", "signbit", "sin", "sinh", "split", "sqrt",
        "st_asbinary", "st_asgeojson", "st_astext", "st_aswkb", "st_aswkt", "st_crs",
        "st_geomfromgeojson", "st_geomfromwkb", "st_intersects_extent", "st_setcrs", "starts_with",
        "str_split", "str_split_regex", "strftime", "string_split", "string_split_regex",
        "string_to_array", "strip_accents", "strlen", "strpos", "strptime", "struct_concat",
        "struct_contains", "struct_extract", "struct_extract_at", "struct_has", "struct_indexof",
        "struct_insert", "struct_keys", "struct_pack", "struct_position", "struct_update",
        "struct_values", "substr", "substring", "substring_grapheme", "subtract", "suffix",
        "switch", "tan", "tanh", "time_bucket", "timetz_byte_comparable", "timezone",
        "timezone_hour", "timezone_minute", "to_aggregate_state", "to_base", "to_base64",
        "to_binary", "to_centuries", "to_days", "to_decades", "to_hex", "to_hours", "to_json",
        "to_microseconds", "to_millennia", "to_milliseconds", "to_minutes", "to_months",
        "to_quarters", "to_seconds", "to_timestamp", "to_weeks", "to_years", "translate", "trim",
        "trunc", "try_strptime", "typeof", "ucase", "unbin", "unhex", "unicode", "union_extract",
        "union_tag", "union_value", "unpivot_list", "upper", "url_decode", "url_encode",
        "uuid_extract_timestamp", "uuid_extract_version", "variant_array_length",
        "variant_bytes_to_variant", "variant_comparator", "variant_contains", "variant_exists",
        "variant_extract", "variant_extract_string", "variant_keys", "variant_normalize",
        "variant_to_parquet_variant", "variant_type", "variant_typeof", "version", "vertex_extract",
        "week", "weekday", "weekofyear", "xor", "year", "yearweek",
    ]
)  # fmt: skip
"""Scalar functions whose value is fixed by their arguments and the session's TimeZone."""

AGGREGATES = frozenset(
    [
        "any_value", "approx_count_distinct", "approx_quantile", "approx_top_k", "arbitrary",
        "arg_max", "arg_max_null", "arg_max_nulls_last", "arg_min", "arg_min_null",
        "arg_min_nulls_last", "argmax", "argmin", "array_agg", "avg", "bit_and", "bit_or",
        "bit_xor", "bitstring_agg", "bool_and", "bool_or", "combine_aggr", "corr", "count",
        "count_if", "count_star", "countif", "covar_pop", "covar_samp", "decimal_average",
        "entropy", "favg", "first", "fsum", "group_concat", "histogram", "histogram_exact",
        "kahan_sum", "kurtosis", "kurtosis_pop", "last", "list", "listagg", "lttb", "mad", "max",
        "max_by", "mean", "median", "min", "min_by", "mode", "product", "quantile", "quantile_cont",
        "quantile_disc", "regr_avgx", "regr_avgy", "regr_count", "regr_intercept", "regr_r2",
        "regr_slope", "regr_sxx", "regr_sxy", "regr_syy", "reservoir_quantile", "sem", "skewness",
        "stddev", "stddev_pop", "stddev_samp", "string_agg", "sum", "sum_no_overflow", "sumkahan",
        "var_pop", "var_samp", "variance", "variant_group_object",
    ]
)  # fmt: skip
WINDOWS = frozenset(
    [
        "cume_dist", "dense_rank", "fill", "first_value", "lag", "last_value", "lead", "nth_value",
        "ntile", "percent_rank", "rank", "rank_dense", "row_number",
    ]
)  # fmt: skip

OF_THE_SESSION = frozenset(
    [
        "current_database", "current_date", "current_localtime", "current_localtimestamp",
        "current_schema", "current_schemas", "current_setting", "get_current_time",
        "get_current_timestamp", "getvariable", "in_search_path", "json_serialize_plan", "now",
        "today", "transaction_timestamp", "txid_current",
    ]
)  # fmt: skip
"""Scalar functions whose value comes from the time, the session or the catalog: one in a query."""

VOLATILE = frozenset(
    [
        "current_connection_id", "current_query", "current_query_id", "current_transaction_id",
        "currval", "error", "gen_random_uuid", "nextval", "random", "setseed", "setval", "sleep_ms",
        "stats", "uuid", "uuidv4", "uuidv7", "vector_type", "write_log",
    ]
)  # fmt: skip
"""Scalar functions whose value may differ from call to call, or that do something beside."""


def is_fixed(name: str) -> bool:
    """Returns whether a scalar function of this folded name is fixed by its arguments."""
    return name in _FIXED or name.startswith(_FAMILIES)


def computes(name: str) -> bool:
    """Returns whether a function of this folded name computes with its arguments or rows alone."""
    return is_fixed(name) or name in AGGREGATES or name in WINDOWS


@functools.cache
def own_functions() -> frozenset[str]:
    """The folded names of the scalar, aggregate and window functions of the DuckDB at hand."""
    query = """SELECT DISTINCT function_name FROM duckdb_functions()
        WHERE internal AND function_type IN ('scalar', 'aggregate', 'window')"""
    with FACTS.borrow() as empty:
        return frozenset([fold(name) for (name,) in rows(empty, query)])


@functools.cache
def unknown_functions() -> frozenset[str]:
    """Those of them of which nothing is known here."""
    known = OF_THE_SESSION | VOLATILE
    return frozenset([name for name in own_functions() - known if not computes(name)])
