// The words that SQL has beside the names of relations: DuckDB's own, and those of this database.

const OURS = [
  "CREATE MATERIALIZED VIEW", "CREATE OR REPLACE MATERIALIZED VIEW", "DROP MATERIALIZED VIEW",
  "EXPLAIN MATERIALIZED VIEW", "REFRESH MATERIALIZED VIEW", "VERIFY MATERIALIZED VIEW",
  "SHOW MATERIALIZED VIEWS", "CREATE SOURCE", "CREATE SINK", "SHOW SOURCES", "SHOW SINKS",
];
let known = null;

/** Keywords, functions and types; asked for once. */
export function language(api) {
  known ??= ask(api).catch(() => {
    known = null; // asked anew by the next page
    return { keywords: OURS, functions: [], types: [] };
  });
  return known;
}

async function ask(api) {
  const column = async (sql) => (await api.sql(sql)).rows.map(([word]) => word);
  const [keywords, functions, types] = await Promise.all([
    column("SELECT upper(keyword_name) FROM duckdb_keywords() ORDER BY 1"),
    column(String.raw`SELECT DISTINCT function_name FROM duckdb_functions()
      WHERE regexp_matches(function_name, '^[a-z][a-z0-9_]*$') ORDER BY 1`),
    column("SELECT DISTINCT upper(type_name) FROM duckdb_types() WHERE internal ORDER BY 1"),
  ]);
  return { keywords: [...OURS, ...keywords], functions, types };
}
