"""The relations of PostgreSQL's catalog, in SQL over the facts.

They have the columns of PostgreSQL 15 that clients ask for. What a database here never has
(triggers, policies, tablespaces, …) is a relation without rows.
"""

from __future__ import annotations

RELATIONS = {
    "pg_namespace": """
        SELECT oid, name AS nspname, 10 AS nspowner, NULL::VARCHAR[] AS nspacl
        FROM main.schemas""",
    "pg_class": """
        SELECT oid, 1259 AS tableoid, name AS relname, schema AS relnamespace, 0 AS reltype,
            0 AS reloftype, 10 AS relowner, CASE WHEN kind IN ('r', 'm') THEN 2 ELSE 0 END AS relam,
            oid AS relfilenode, 0 AS reltablespace, 0 AS relpages, rows AS reltuples,
            0 AS relallvisible, 0 AS reltoastrelid, has_index AS relhasindex, false AS relisshared,
            CASE WHEN temporary THEN 't' ELSE 'p' END AS relpersistence, kind AS relkind,
            columns AS relnatts, checks AS relchecks, false AS relhasrules,
            oid IN (SELECT unnest([relation, other]) FROM main.constraints WHERE kind = 'f')
            AS relhastriggers, false AS relhassubclass,
            false AS relrowsecurity, false AS relforcerowsecurity, true AS relispopulated,
            'd' AS relreplident, false AS relispartition, 0 AS relrewrite, 0 AS relfrozenxid,
            0 AS relminmxid, NULL::VARCHAR[] AS relacl, NULL::VARCHAR[] AS reloptions,
            NULL::VARCHAR AS relpartbound FROM main.relations
        UNION ALL
        SELECT oid, 1259, name, schema, 0, 0, 10, 403, oid, 0, 0, 0, 0, 0, false, false, 'p', 'i',
            len(numbers), 0, false, false, false, false, false, true, 'n', false, 0, 0, 0, NULL,
            NULL, NULL FROM main.indexes""",
    "pg_attribute": """
        SELECT relation AS attrelid, name AS attname, type AS atttypid, -1 AS attstattarget,
            size AS attlen, number AS attnum, 0 AS attndims, -1 AS attcacheoff,
            modifier AS atttypmod, size BETWEEN 1 AND 8 AS attbyval, 'p' AS attstorage,
            'i' AS attalign, not_null AS attnotnull, default_sql IS NOT NULL AS atthasdef,
            false AS atthasmissing, '' AS attidentity, generated AS attgenerated,
            false AS attisdropped, true AS attislocal, 0 AS attinhcount,
            CASE WHEN type IN (25, 1043, 1042) THEN 100 ELSE 0 END AS attcollation,
            '' AS attcompression, NULL::VARCHAR[] AS attacl, NULL::VARCHAR[] AS attoptions,
            NULL::VARCHAR[] AS attfdwoptions, NULL::VARCHAR AS attmissingval FROM main.columns
        UNION ALL
        SELECT i.oid, c.name, c.type, -1, c.size, k.number, 0, -1, c.modifier, true, 'p', 'i',
            false, false, false, '', '', false, true, 0, 0, '', NULL, NULL, NULL, NULL
        FROM (SELECT oid, relation, unnest(numbers) AS at,
                generate_subscripts(numbers, 1) AS number FROM main.indexes) k
            JOIN main.indexes i ON i.oid = k.oid
            JOIN main.columns c ON c.relation = k.relation AND c.number = k.at""",
    "pg_attrdef": """
        SELECT relation * 65536 + number AS oid, relation AS adrelid, number AS adnum,
            default_sql AS adbin FROM main.columns WHERE default_sql IS NOT NULL""",
    "pg_type": """
        SELECT oid, name AS typname, 11 AS typnamespace, 10 AS typowner, size AS typlen,
            size BETWEEN 1 AND 8 AS typbyval, 'b' AS typtype, category AS typcategory,
            oid IN (25, 701, 1184) AS typispreferred, true AS typisdefined, ',' AS typdelim,
            0 AS typrelid, CASE WHEN element > 0 THEN 'array_subscript_handler' ELSE '-' END
            AS typsubscript, element AS typelem, "array" AS typarray,
            CASE WHEN element > 0 THEN 'array_in' ELSE name || 'in' END AS typinput,
            name || 'out' AS typoutput, CASE WHEN element > 0 THEN 'array_recv' ELSE name || 'recv'
            END AS typreceive, name || 'send' AS typsend, '-' AS typmodin, '-' AS typmodout,
            'i' AS typalign, 'p' AS typstorage, false AS typnotnull, 0 AS typbasetype,
            -1 AS typtypmod, 0 AS typndims, CASE WHEN category = 'S' THEN 100 ELSE 0 END
            AS typcollation, NULL::VARCHAR AS typdefault, NULL::VARCHAR[] AS typacl FROM
            main.pg_types""",
    "pg_index": """
        SELECT oid AS indexrelid, relation AS indrelid, len(numbers) AS indnatts,
            len(numbers) AS indnkeyatts, is_unique AS indisunique,
            false AS indnullsnotdistinct, is_primary AS indisprimary, false AS indisexclusion,
            true AS indimmediate, false AS indisclustered, true AS indisvalid,
            false AS indcheckxmin, true AS indisready, true AS indislive, false AS indisreplident,
            numbers AS indkey, list_transform(numbers, lambda n: 0) AS indcollation,
            list_transform(numbers, lambda n: 0) AS indclass,
            list_transform(numbers, lambda n: 0) AS indoption, NULL::VARCHAR AS indexprs,
            NULL::VARCHAR AS indpred FROM main.indexes""",
    "pg_constraint": """
        SELECT oid, 2606 AS tableoid, name AS conname, schema AS connamespace, kind AS contype,
            false AS condeferrable, false AS condeferred, true AS convalidated,
            relation AS conrelid, 0 AS contypid, CASE WHEN kind IN ('p', 'u') THEN oid
            ELSE coalesce((SELECT min(k.oid) FROM main.constraints k WHERE k.kind IN ('p', 'u')
            AND k.relation = c.other AND k.numbers = c.others), 0) END AS conindid,
            0 AS conparentid, other AS confrelid, 'a' AS confupdtype,
            'a' AS confdeltype, 's' AS confmatchtype, true AS conislocal, 0 AS coninhcount,
            true AS connoinherit, numbers AS conkey, others AS confkey,
            NULL::BIGINT[] AS conpfeqop, NULL::BIGINT[] AS conppeqop, NULL::BIGINT[] AS conffeqop,
            NULL::INTEGER[] AS confdelsetcols, NULL::BIGINT[] AS conexclop,
            text AS conbin FROM main.constraints c""",
    "pg_description": """
        SELECT oid AS objoid, 1259 AS classoid, 0 AS objsubid, comment AS description
        FROM main.relations WHERE comment IS NOT NULL
        UNION ALL SELECT relation, 1259, number, comment FROM main.columns WHERE comment IS NOT
        NULL""",
    "pg_database": """
        SELECT 1 AS oid, getvariable('ivm_database') AS datname, 10 AS datdba, 6 AS encoding,
            'c' AS datlocprovider, false AS datistemplate, true AS datallowconn,
            -1 AS datconnlimit, 0 AS datfrozenxid, 0 AS datminmxid, 1663 AS dattablespace,
            'C' AS datcollate, 'C' AS datctype, NULL::VARCHAR AS daticulocale,
            NULL::VARCHAR AS datcollversion, NULL::VARCHAR[] AS datacl""",
    "pg_roles": """
        SELECT 10 AS oid, getvariable('ivm_user') AS rolname, false AS rolsuper, true AS rolinherit,
            false AS rolcreaterole, false AS rolcreatedb, true AS rolcanlogin,
            false AS rolreplication, -1 AS rolconnlimit, NULL::VARCHAR AS rolpassword,
            NULL::TIMESTAMPTZ AS rolvaliduntil, false AS rolbypassrls,
            NULL::VARCHAR[] AS rolconfig""",
    "pg_authid": "SELECT * FROM pgc.pg_roles",
    "pg_user": """
        SELECT rolname AS usename, 10 AS usesysid, false AS usecreatedb, false AS usesuper,
            false AS userepl, false AS usebypassrls, NULL::VARCHAR AS passwd,
            NULL::TIMESTAMPTZ AS valuntil, NULL::VARCHAR[] AS useconfig FROM pgc.pg_roles""",
    "pg_am": """
        SELECT * FROM (VALUES (2, 'heap', '-', 't'), (403, 'btree', '-', 'i'))
        t(oid, amname, amhandler, amtype)""",
    "pg_language": """
        SELECT 12 AS oid, 2612 AS tableoid, 'internal' AS lanname, 10 AS lanowner,
            false AS lanispl, false AS lanpltrusted, 0 AS lanplcallfoid, 0 AS laninline,
            0 AS lanvalidator, NULL::VARCHAR[] AS lanacl""",
    "pg_collation": """
        SELECT 100 AS oid, 'default' AS collname, 11 AS collnamespace, 10 AS collowner,
            'd' AS collprovider, true AS collisdeterministic, -1 AS collencoding,
            NULL::VARCHAR AS collcollate, NULL::VARCHAR AS collctype, NULL::VARCHAR AS
            colliculocale,
            NULL::VARCHAR AS collversion""",
    "pg_tablespace": """
        SELECT 1663 AS oid, 'pg_default' AS spcname, 10 AS spcowner, NULL::VARCHAR[] AS spcacl,
            NULL::VARCHAR[] AS spcoptions""",
    "pg_tables": """
        SELECT s.name AS schemaname, r.name AS tablename, getvariable('ivm_user') AS tableowner,
            NULL::VARCHAR AS tablespace, has_index AS hasindexes, false AS hasrules,
            false AS hastriggers, false AS rowsecurity
        FROM main.relations r JOIN main.schemas s ON s.oid = r.schema WHERE kind = 'r'""",
    "pg_views": """
        SELECT s.name AS schemaname, r.name AS viewname, getvariable('ivm_user') AS viewowner,
            definition FROM main.relations r JOIN main.schemas s ON s.oid = r.schema WHERE kind =
            'v'""",
    "pg_matviews": """
        SELECT s.name AS schemaname, r.name AS matviewname, getvariable('ivm_user') AS matviewowner,
            NULL::VARCHAR AS tablespace, false AS hasindexes, true AS ispopulated, definition
        FROM main.relations r JOIN main.schemas s ON s.oid = r.schema WHERE kind = 'm'""",
    "pg_indexes": """
        SELECT s.name AS schemaname, r.name AS tablename, i.name AS indexname,
            NULL::VARCHAR AS tablespace, i.text AS indexdef FROM main.indexes i
            JOIN main.relations r ON r.oid = i.relation JOIN main.schemas s ON s.oid = i.schema""",
    "pg_sequences": """
        SELECT s.name AS schemaname, r.name AS sequencename, getvariable('ivm_user') AS
        sequenceowner
        FROM main.relations r JOIN main.schemas s ON s.oid = r.schema WHERE kind = 'S'""",
    "pg_sequence": """
        SELECT oid AS seqrelid, 20 AS seqtypid, 1 AS seqstart, 1 AS seqincrement,
            9223372036854775807 AS seqmax, 1 AS seqmin, 1 AS seqcache, false AS seqcycle
        FROM main.relations WHERE kind = 'S'""",
    "pg_settings": """
        SELECT key AS name, value AS setting, NULL::VARCHAR AS unit, '' AS category,
            '' AS short_desc, 'user' AS context, 'string' AS vartype, 'default' AS source,
            NULL::VARCHAR AS min_val, NULL::VARCHAR AS max_val, NULL::VARCHAR[] AS enumvals,
            NULL::VARCHAR AS boot_val, value AS reset_val, false AS pending_restart
        FROM (SELECT unnest(map_entries(getvariable('ivm_settings')), recursive := true))""",
    "pg_stat_activity": """
        SELECT 1 AS datid, getvariable('ivm_database') AS datname,
            getvariable('ivm_number') AS pid, 10 AS usesysid, getvariable('ivm_user') AS usename,
            '' AS application_name, 'active' AS state, '' AS query, 'client backend' AS
            backend_type""",
}
"""The relations of `pg_catalog` as queries."""

EMPTY = {
    "pg_auth_members": "roleid member grantor admin_option",
    "pg_db_role_setting": "setdatabase setrole setconfig",
    "pg_depend": "classid objid objsubid refclassid refobjid refobjsubid deptype",
    "pg_enum": "oid enumtypid enumsortorder enumlabel",
    "pg_event_trigger": "oid evtname evtevent evtowner evtfoid evtenabled evttags",
    "pg_extension": "oid extname extowner extnamespace extrelocatable extversion extconfig",
    "pg_foreign_data_wrapper": "oid fdwname fdwowner fdwhandler fdwvalidator fdwacl fdwoptions",
    "pg_foreign_server": "oid srvname srvowner srvfdw srvtype srvversion srvacl srvoptions",
    "pg_foreign_table": "ftrelid ftserver ftoptions",
    "pg_inherits": "inhrelid inhparent inhseqno inhdetachpending",
    "pg_locks": "locktype database relation pid mode granted",
    "pg_opclass": "oid opcmethod opcname opcnamespace opcintype opcdefault opckeytype opcfamily",
    "pg_operator": "oid oprname oprnamespace oprowner oprkind oprcanmerge oprcanhash "
    "oprleft oprright oprresult oprcode",
    "pg_partitioned_table": "partrelid partstrat partnatts partdefid partattrs partexprs",
    "pg_policy": "oid polname polrelid polcmd polpermissive polroles polqual polwithcheck",
    "pg_proc": "oid proname pronamespace proowner prolang prokind prorettype proargtypes "
    "proallargtypes proargmodes proargnames proretset provolatile prosecdef proacl prosrc "
    "proparallel pronargs pronargdefaults proisstrict proleakproof prosupport probin",
    "pg_publication": "oid pubname pubowner puballtables pubinsert pubupdate pubdelete pubtruncate "
    "pubviaroot",
    "pg_publication_namespace": "oid pnpubid pnnspid",
    "pg_publication_rel": "oid prpubid prrelid prqual prattrs",
    "pg_range": "rngtypid rngsubtype rngmultitypid rngcollation rngsubopc",
    "pg_rewrite": "oid rulename ev_class ev_type ev_enabled is_instead ev_qual ev_action",
    "pg_seclabel": "objoid classoid objsubid provider label",
    "pg_shdescription": "objoid classoid description",
    "pg_statistic_ext": "oid stxrelid stxname stxnamespace stxowner stxstattarget stxkeys stxkind",
    "pg_stat_user_tables": "relid schemaname relname seq_scan n_live_tup n_dead_tup",
    "pg_subscription": "oid subdbid subname subowner subenabled",
    "pg_trigger": "oid tgrelid tgparentid tgname tgfoid tgtype tgenabled tgisinternal "
    "tgconstrrelid tgconstrindid tgconstraint tgdeferrable tginitdeferred tgnargs tgattr tgargs "
    "tgqual tgoldtable tgnewtable",
    "pg_cast": "oid castsource casttarget castfunc castcontext castmethod",
    "pg_conversion": "oid conname connamespace conowner conforencoding contoencoding "
    "conproc condefault",
    "pg_aggregate": "aggfnoid aggkind aggnumdirectargs",
    "pg_amop": "oid amopfamily amoplefttype amoprighttype amopstrategy "
    "amoppurpose amopopr amopmethod",
    "pg_amproc": "oid amprocfamily amproclefttype amprocrighttype amprocnum amproc",
    "pg_opfamily": "oid opfmethod opfname opfnamespace opfowner",
    "pg_default_acl": "oid defaclrole defaclnamespace defaclobjtype defaclacl",
    "pg_largeobject_metadata": "oid lomowner lomacl",
    "pg_ts_config": "oid cfgname cfgnamespace cfgowner cfgparser",
    "pg_ts_dict": "oid dictname dictnamespace dictowner dicttemplate dictinitoption",
    "pg_ts_parser": "oid prsname prsnamespace prsstart prstoken prsend prsheadline prslextype",
    "pg_ts_template": "oid tmplname tmplnamespace tmplinit tmpllexize",
    "pg_timezone_names": "name abbrev utc_offset is_dst",
    "pg_stat_database": "datid datname numbackends xact_commit xact_rollback",
    "pg_stat_ssl": "pid ssl version cipher bits",
    "pg_stat_replication": "pid usesysid usename state",
    "pg_replication_slots": "slot_name plugin slot_type active",
    "pg_prepared_xacts": "transaction gid prepared owner database",
    "pg_user_mapping": "oid umuser umserver umoptions",
}
"""Relations that never have rows, with their columns."""

_LISTS = frozenset(
    (
        *(
            "evttags",
            "proallargtypes",
            "proargmodes",
            "proargnames",
            "proargtypes",
            "polroles",
            "stxkeys",
        ),
        *(
            "setconfig",
            "extconfig",
            "prattrs",
            "srvoptions",
            "ftoptions",
            "fdwoptions",
            "umoptions",
        ),
    )
)
_TEXT_LISTS = frozenset(("stxkind", "evttags", "setconfig", "proargnames", "proargmodes"))
_TEXTS = ("name", "kind", "label", "type", "cmd", "qual", "src", "acl", "description", "enabled")


def empty(columns: str) -> str:
    """A query without rows that has these columns."""
    told = [f"NULL::{_type(name)} AS {name}" for name in f"tableoid {columns}".split()]
    return f"SELECT {', '.join(told)} WHERE false"


def _type(name: str) -> str:
    if name in _TEXT_LISTS:
        return "VARCHAR[]"
    if name in _LISTS:
        return "BIGINT[]"
    return "VARCHAR" if name.endswith(_TEXTS) else "BIGINT"


_INFORMATION_TYPE = """
    CASE WHEN t.element > 0 THEN 'ARRAY' ELSE t.shown END"""
INFORMATION = {
    "schemata": """
        SELECT getvariable('ivm_database') AS catalog_name, name AS schema_name,
            getvariable('ivm_user') AS schema_owner FROM main.schemas""",
    "tables": """
        SELECT getvariable('ivm_database') AS table_catalog, s.name AS table_schema,
            r.name AS table_name, CASE WHEN kind <> 'r' THEN 'VIEW' WHEN temporary
            THEN 'LOCAL TEMPORARY' ELSE 'BASE TABLE' END AS table_type,
            CASE kind WHEN 'r' THEN 'YES' ELSE 'NO' END AS is_insertable_into, 'NO' AS is_typed
        FROM main.relations r JOIN main.schemas s ON s.oid = r.schema WHERE kind IN ('r', 'v',
        'm')""",
    "views": """
        SELECT getvariable('ivm_database') AS table_catalog, s.name AS table_schema,
            r.name AS table_name, definition AS view_definition, 'NONE' AS check_option,
            'NO' AS is_updatable FROM main.relations r JOIN main.schemas s ON s.oid = r.schema
        WHERE kind IN ('v', 'm')""",
    "columns": f"""
        SELECT getvariable('ivm_database') AS table_catalog, s.name AS table_schema,
            r.name AS table_name, c.name AS column_name, c.number AS ordinal_position,
            c.default_sql AS column_default, CASE WHEN c.not_null THEN 'NO' ELSE 'YES' END
            AS is_nullable, {_INFORMATION_TYPE} AS data_type,
            NULL::INTEGER AS character_maximum_length, NULL::INTEGER AS character_octet_length,
            CASE WHEN c.type = 1700 AND c.modifier > 0 THEN (c.modifier - 4) >> 16
                WHEN c.type = 21 THEN 16 WHEN c.type = 23 THEN 32 WHEN c.type = 20 THEN 64
                WHEN c.type = 700 THEN 24 WHEN c.type = 701 THEN 53 END AS numeric_precision,
            CASE WHEN c.type IN (20, 21, 23, 700, 701) THEN 2 WHEN c.type = 1700 THEN 10 END
            AS numeric_precision_radix,
            CASE WHEN c.type = 1700 AND c.modifier > 0 THEN (c.modifier - 4) & 65535
                WHEN c.type IN (20, 21, 23) THEN 0 END AS numeric_scale,
            CASE WHEN c.type IN (1083, 1114, 1184, 1186, 1266) THEN 6 WHEN c.type = 1082 THEN 0 END
            AS datetime_precision, NULL::VARCHAR AS collation_name,
            getvariable('ivm_database') AS udt_catalog, 'pg_catalog' AS udt_schema,
            t.name AS udt_name, 'NO' AS is_identity, NULL::VARCHAR AS identity_generation,
            CASE WHEN c.generated = 's' THEN 'ALWAYS' ELSE 'NEVER' END AS is_generated,
            NULL::VARCHAR AS generation_expression, 'YES' AS is_updatable
        FROM main.columns c JOIN main.relations r ON r.oid = c.relation JOIN main.schemas s ON
        s.oid = r.schema
            JOIN main.pg_types t ON t.oid = c.type ORDER BY c.relation, c.number""",
    "table_constraints": """
        SELECT getvariable('ivm_database') AS constraint_catalog, s.name AS constraint_schema,
            c.name AS constraint_name, getvariable('ivm_database') AS table_catalog,
            s.name AS table_schema, r.name AS table_name, CASE c.kind WHEN 'p' THEN 'PRIMARY KEY'
            WHEN 'u' THEN 'UNIQUE' WHEN 'f' THEN 'FOREIGN KEY' ELSE 'CHECK' END AS constraint_type,
            'NO' AS is_deferrable, 'NO' AS initially_deferred, 'YES' AS enforced
        FROM main.constraints c JOIN main.relations r ON r.oid = c.relation
            JOIN main.schemas s ON s.oid = c.schema""",
    "key_column_usage": """
        SELECT getvariable('ivm_database') AS constraint_catalog, s.name AS constraint_schema,
            k.name AS constraint_name, getvariable('ivm_database') AS table_catalog,
            s.name AS table_schema, r.name AS table_name, c.name AS column_name,
            k.at AS ordinal_position, NULL::INTEGER AS position_in_unique_constraint
        FROM (SELECT *, unnest(numbers) AS number, generate_subscripts(numbers, 1) AS at
                FROM main.constraints WHERE kind IN ('p', 'u', 'f')) k
            JOIN main.relations r ON r.oid = k.relation JOIN main.schemas s ON s.oid = k.schema
            JOIN main.columns c ON c.relation = k.relation AND c.number = k.number""",
}
"""The relations of `information_schema` as queries."""

RELATION_NAMES = RELATIONS.keys() | EMPTY.keys()
"""Of `pg_catalog`; those of `information_schema` are the names of `INFORMATION`."""
