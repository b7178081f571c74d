"""The functions of PostgreSQL's catalog, as macros of DuckDB's over the facts.

What a database here never has (triggers, locks, tablespaces, …) is NULL, or no row.
"""

from __future__ import annotations

import re

MACROS = """
CREATE MACRO version() AS 'PostgreSQL ' || getvariable('ivm_version');
CREATE MACRO pg_backend_pid() AS getvariable('ivm_number')::INTEGER;
CREATE MACRO pg_table_is_visible(o) AS EXISTS (SELECT 1 FROM pgc.pg_class ivm_c
    JOIN main.schemas ivm_s ON ivm_s.oid = ivm_c.relnamespace WHERE ivm_c.oid = o
    AND (ivm_s.name IN ('temp', 'pg_catalog') OR (ivm_s.name = 'main' AND ivm_c.relname NOT IN
    (SELECT ivm_h.name FROM main.relations ivm_h WHERE ivm_h.temporary))));
CREATE MACRO pg_type_is_visible(o) AS true;
CREATE MACRO pg_function_is_visible(o) AS true;
CREATE MACRO pg_collation_is_visible(o) AS true;
CREATE MACRO pg_opclass_is_visible(o) AS true;
CREATE MACRO pg_operator_is_visible(o) AS true;
CREATE MACRO pg_statistics_obj_is_visible(o) AS true;
CREATE MACRO pg_get_userbyid(o) AS getvariable('ivm_user');
CREATE MACRO pg_encoding_to_char(e) AS 'UTF8';
CREATE MACRO pg_client_encoding() AS 'UTF8';
CREATE MACRO pg_relation_is_publishable(o) AS false;
CREATE MACRO format_type(o, m) AS (SELECT CASE
    WHEN ivm_t.oid = 1700 AND m > 0 THEN 'numeric(' || ((m - 4) >> 16) || ',' || ((m - 4) &
    65535) || ')'
    WHEN ivm_t.oid IN (1042, 1043) AND m > 0 THEN ivm_t.shown || '(' || (m - 4) || ')'
    ELSE ivm_t.shown END FROM main.pg_types ivm_t WHERE ivm_t.oid = o);
CREATE MACRO pg_get_expr(e, o) AS e,
    (e, o, p) AS e;
CREATE MACRO pg_get_viewdef(o) AS (SELECT definition FROM main.relations WHERE oid = o),
    (o, p) AS (SELECT definition FROM main.relations WHERE oid = o);
CREATE MACRO pg_get_indexdef(o) AS (SELECT text FROM main.indexes WHERE oid = o),
    (o, n, p) AS (SELECT CASE WHEN n = 0 THEN ivm_i.text ELSE (SELECT ivm_c.name FROM
    main.columns ivm_c
        WHERE ivm_c.relation = ivm_i.relation AND ivm_c.number = ivm_i.numbers[n]) END FROM
        main.indexes ivm_i WHERE ivm_i.oid = o);
CREATE MACRO pg_get_constraintdef(o) AS (SELECT text FROM main.constraints WHERE oid = o),
    (o, p) AS (SELECT text FROM main.constraints WHERE oid = o);
CREATE MACRO pg_get_function_result(o) AS NULL::VARCHAR;
CREATE MACRO pg_get_function_arguments(o) AS NULL::VARCHAR;
CREATE MACRO pg_get_function_identity_arguments(o) AS NULL::VARCHAR;
CREATE MACRO pg_get_functiondef(o) AS NULL::VARCHAR;
CREATE MACRO pg_get_triggerdef(o) AS NULL::VARCHAR, (o, p) AS NULL::VARCHAR;
CREATE MACRO pg_get_ruledef(o) AS NULL::VARCHAR, (o, p) AS NULL::VARCHAR;
CREATE MACRO pg_get_partkeydef(o) AS NULL::VARCHAR;
CREATE MACRO pg_get_statisticsobjdef_columns(o) AS NULL::VARCHAR;
CREATE MACRO pg_get_serial_sequence(t, c) AS NULL::VARCHAR;
CREATE MACRO pg_relation_size(o) AS 0::BIGINT, (o, f) AS 0::BIGINT;
CREATE MACRO pg_table_size(o) AS 0::BIGINT;
CREATE MACRO pg_indexes_size(o) AS 0::BIGINT;
CREATE MACRO pg_total_relation_size(o) AS 0::BIGINT;
CREATE MACRO pg_database_size(o) AS 0::BIGINT;
CREATE MACRO pg_tablespace_size(o) AS 0::BIGINT;
CREATE MACRO pg_tablespace_location(o) AS ''::VARCHAR;
CREATE MACRO pg_size_pretty(n) AS n || ' bytes';
CREATE MACRO pg_is_in_recovery() AS false;
CREATE MACRO pg_is_other_temp_schema(o) AS false;
CREATE MACRO pg_my_temp_schema() AS
    coalesce((SELECT ivm_s.oid FROM main.schemas ivm_s WHERE ivm_s.name = 'temp'), 0)::BIGINT;
CREATE MACRO pg_advisory_unlock_all() AS NULL::VARCHAR;
CREATE MACRO pg_advisory_lock(k) AS NULL::VARCHAR;
CREATE MACRO pg_try_advisory_lock(k) AS true;
CREATE MACRO pg_advisory_unlock(k) AS true;
CREATE MACRO pg_postmaster_start_time() AS getvariable('ivm_began');
CREATE MACRO pg_conf_load_time() AS getvariable('ivm_began');
CREATE MACRO pg_char_to_encoding(e) AS 6;
CREATE MACRO pg_blocking_pids(p) AS []::INTEGER[];
CREATE MACRO pg_listening_channels() AS NULL::VARCHAR;
CREATE MACRO pg_relation_filenode(o) AS o;
CREATE MACRO pg_column_is_updatable(o, n, b) AS true;
CREATE MACRO txid_current() AS 1::BIGINT;
CREATE MACRO inet_server_addr() AS NULL::VARCHAR;
CREATE MACRO inet_server_port() AS NULL::INTEGER;
CREATE MACRO inet_client_addr() AS NULL::VARCHAR;
CREATE MACRO obj_description(o) AS (SELECT comment FROM main.relations WHERE oid = o),
    (o, c) AS (SELECT comment FROM main.relations WHERE oid = o);
CREATE MACRO col_description(o, n) AS
    (SELECT comment FROM main.columns WHERE relation = o AND number = n);
CREATE MACRO shobj_description(o, c) AS NULL::VARCHAR;
CREATE MACRO has_table_privilege(o, p) AS true, (u, o, p) AS true;
CREATE MACRO has_schema_privilege(o, p) AS true, (u, o, p) AS true;
CREATE MACRO has_database_privilege(o, p) AS true, (u, o, p) AS true;
CREATE MACRO has_column_privilege(o, c, p) AS true, (u, o, c, p) AS true;
CREATE MACRO has_any_column_privilege(o, p) AS true, (u, o, p) AS true;
CREATE MACRO has_sequence_privilege(o, p) AS true, (u, o, p) AS true;
CREATE MACRO has_function_privilege(o, p) AS true, (u, o, p) AS true;
CREATE MACRO pg_has_role(r, p) AS true, (u, r, p) AS true;
CREATE MACRO array_to_string(l, d) AS list_aggregate(list_transform(l, lambda e: e::VARCHAR),
    'string_agg', d);
CREATE MACRO _pg_expandarray(l) AS unnest(list_transform(l, lambda x, i: {'x': x, 'n': i}));
CREATE MACRO array_upper(l, d) AS CASE WHEN len(l) > 0 THEN len(l) END;
CREATE MACRO array_lower(l, d) AS CASE WHEN len(l) > 0 THEN 1 END;
CREATE MACRO quote_ident(t) AS CASE WHEN regexp_full_match(t, '[a-z_][a-z0-9_$]*') THEN t
    ELSE '"' || replace(t, '"', '""') || '"' END;
CREATE MACRO quote_literal(t) AS '''' || replace(t::VARCHAR, '''', '''''') || '''';
CREATE MACRO parse_ident(t) AS list_transform(regexp_extract_all(t, '"(?:[^"]|"")*"|[^".]+'),
    lambda p: CASE WHEN p[1] = '"' THEN replace(p[2:-2], '""', '"') ELSE lower(p) END);
CREATE MACRO current_database() AS getvariable('ivm_database');
CREATE MACRO current_schema() AS 'main';
CREATE MACRO current_schemas(b) AS CASE WHEN b THEN ['pg_catalog', 'main'] ELSE ['main'] END;
CREATE MACRO current_user_name() AS getvariable('ivm_user');
CREATE MACRO current_setting(n) AS getvariable('ivm_settings')[lower(n)],
    (n, m) AS getvariable('ivm_settings')[lower(n)];
CREATE MACRO pg_partition_ancestors(o) AS NULL::UINTEGER;
CREATE MACRO pg_partition_ancestors(o) AS TABLE
    SELECT NULL::UINTEGER AS relid, 0 AS depth WHERE false;
CREATE MACRO pg_partition_tree(o) AS TABLE SELECT NULL::UINTEGER AS relid WHERE false;
CREATE MACRO oid_of_relation(t) AS coalesce(TRY_CAST(t AS UINTEGER),
    MAP {'pg_class': 1259, 'pg_namespace': 2615, 'pg_type': 1247, 'pg_constraint': 2606,
    'pg_proc': 1255,
    'pg_attribute': 1249, 'pg_database': 1262, 'pg_authid': 1260, 'pg_index': 2610}[split_part(t,
    '.', -1)],
    (SELECT ivm_c.oid FROM pgc.pg_class ivm_c JOIN main.schemas ivm_s
    ON ivm_s.oid = ivm_c.relnamespace WHERE lower(ivm_c.relname) = lower(replace(split_part(t,
    '.', -1), '"', ''))
    AND (CASE WHEN contains(t, '.') THEN lower(ivm_s.name) = lower(replace(split_part(t, '.', 1),
    '"', ''))
    ELSE ivm_s.name IN ('main', 'temp') END) ORDER BY ivm_s.name DESC, ivm_c.oid LIMIT 1));
CREATE MACRO name_of_relation(o) AS coalesce((SELECT CASE WHEN ivm_s.name IN ('main', 'temp') THEN
    ivm_c.relname
    ELSE ivm_s.name || '.' || ivm_c.relname END FROM pgc.pg_class ivm_c JOIN main.schemas ivm_s
    ON ivm_s.oid = ivm_c.relnamespace
    WHERE ivm_c.oid = o), o::VARCHAR);
CREATE MACRO oid_of_type(t) AS (SELECT oid FROM main.pg_types WHERE name = replace(t,
    'pg_catalog.', '') OR shown = t
    ORDER BY oid LIMIT 1);
CREATE MACRO name_of_type(o) AS coalesce((SELECT shown FROM main.pg_types WHERE oid = o),
    o::VARCHAR);
CREATE MACRO to_regclass(t) AS oid_of_relation(t);
CREATE MACRO to_regtype(t) AS oid_of_type(t);
"""
"""The functions of `pg_catalog`."""

MACRO_NAMES = frozenset(re.findall(r"CREATE MACRO (\w+)\(", MACROS))
