"""Window queries over t, u and w (see `plan_corpus`), by what becomes of them."""

from __future__ import annotations

# Every order is one of all columns in use, or does not matter.
INDEXED: list[str] = [
    "SELECT k, g, v, row_number() OVER (PARTITION BY g ORDER BY k, v) FROM t",
    "SELECT k, v, row_number() OVER (ORDER BY v DESC NULLS FIRST, k) FROM t",
    "SELECT g, k, rank() OVER w, dense_rank() OVER w, percent_rank() OVER w, cume_dist() OVER w"
    " FROM t WINDOW w AS (PARTITION BY g ORDER BY k)",
    "SELECT g, k, rank() OVER (ORDER BY k), dense_rank() OVER (ORDER BY k DESC) FROM t",
    "SELECT k, v, ntile(3) OVER (ORDER BY k, v), ntile(7) OVER (ORDER BY v, k) FROM t",
    "SELECT k, v, lag(v) OVER w, lead(v, 2) OVER w, lag(v, 1, 0) OVER w, lead(v, -1, k::BIGINT)"
    " OVER w FROM t WINDOW w AS (ORDER BY k, v)",
    "SELECT g, k, lag(g, 1, 'none') OVER (PARTITION BY k % 2 ORDER BY k, g) FROM t",
    "SELECT k, v, first_value(v) OVER (PARTITION BY k ORDER BY v),"
    " last_value(v) OVER (PARTITION BY k ORDER BY v),"
    " nth_value(v, 2) OVER (PARTITION BY k ORDER BY v) FROM t",
    "SELECT k, v, first_value(v) OVER (ORDER BY k, v ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING),"
    " last_value(v) OVER (ORDER BY k, v ROWS BETWEEN CURRENT ROW AND 3 FOLLOWING),"
    " nth_value(v, 2) OVER (ORDER BY k, v ROWS 3 PRECEDING EXCLUDE CURRENT ROW) FROM t",
    "SELECT k, sum(v) OVER (PARTITION BY g), avg(v) OVER (PARTITION BY g), count(*) OVER () FROM t",
    "SELECT k, v, sum(v) OVER (ORDER BY k), count(v) OVER (ORDER BY k DESC),"
    " min(v) OVER (ORDER BY k), max(v) OVER (PARTITION BY g ORDER BY k) FROM t",
    "SELECT k, v, sum(v) OVER (ORDER BY k, v, d ROWS 3 PRECEDING),"
    " avg(d) OVER (ORDER BY k, v, d ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM t",
    "SELECT k, sum(v) OVER (ORDER BY k RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING),"
    " count(*) OVER (ORDER BY k DESC RANGE 2 PRECEDING) FROM t",
    "SELECT day, count(*) OVER (ORDER BY day RANGE BETWEEN INTERVAL 3 DAY PRECEDING AND CURRENT"
    " ROW), sum(v) OVER (ORDER BY day RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING) FROM t",
    "SELECT ts, count(*) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '36 hours' PRECEDING AND"
    " INTERVAL 1 DAY FOLLOWING), max(v) OVER (ORDER BY ts RANGE INTERVAL 2 DAY PRECEDING) FROM u",
    "SELECT d, sum(v) OVER (ORDER BY d RANGE BETWEEN 1.5 PRECEDING AND 2 FOLLOWING) FROM t",
    "SELECT f, count(*) OVER (ORDER BY f RANGE BETWEEN 0.5 PRECEDING AND 0.25 FOLLOWING) FROM t",
    "SELECT k, sum(v) OVER (ORDER BY k GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING),"
    " count(*) OVER (PARTITION BY g ORDER BY k GROUPS 2 PRECEDING) FROM t",
    "SELECT k, sum(v) OVER (ORDER BY k RANGE UNBOUNDED PRECEDING EXCLUDE GROUP),"
    " sum(v) OVER (ORDER BY k GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW),"
    " count(*) OVER (ORDER BY k GROUPS BETWEEN 1 PRECEDING AND 2 FOLLOWING EXCLUDE NO OTHERS)"
    " FROM t",
    "SELECT k, v, sum(v) FILTER (WHERE b) OVER (PARTITION BY g ORDER BY k),"
    " count(*) FILTER (WHERE v > 2) OVER (ORDER BY k), min(v) FILTER (WHERE v > 2) OVER (ORDER BY"
    " k) FROM t",
    "SELECT k, bool_and(b) OVER (ORDER BY k), bool_or(v > 3) OVER (PARTITION BY g), stddev_samp(v)"
    " OVER (ORDER BY k), var_pop(k) OVER (PARTITION BY g) FROM t",
    "SELECT k, v, sum(v) OVER base, count(*) OVER (base ORDER BY k),"
    " max(v) OVER (ordered ROWS 1 PRECEDING) FROM t"
    " WINDOW base AS (PARTITION BY g), ordered AS (base ORDER BY k, v)",
    "SELECT g, sum(v), sum(sum(v)) OVER (ORDER BY g), rank() OVER (ORDER BY count(*) DESC)"
    " FROM t GROUP BY g",
    "SELECT g, k FROM t QUALIFY rank() OVER (PARTITION BY g ORDER BY k) <= 2",
    "SELECT g, k FROM t QUALIFY count(*) OVER (PARTITION BY g) > 2 AND k > 0",
    "SELECT k, v FROM t QUALIFY v > avg(v) OVER ()",
    "SELECT t.k, name, count(*) OVER (PARTITION BY name ORDER BY t.v) FROM t JOIN u ON t.k = u.k",
    "SELECT k, sum(v * 2 + 1) OVER (PARTITION BY upper(g) ORDER BY k + 1) FROM t",
    "SELECT k, v - lag(v) OVER (ORDER BY k, v) AS x, v / sum(v) OVER () AS y FROM t",
    "SELECT k, row_number() OVER (ORDER BY k, v, g) AS n FROM t WHERE v > 1 ORDER BY n LIMIT 3",
    "SELECT DISTINCT g, count(*) OVER (PARTITION BY g) FROM t",
    "SELECT k, count(*) OVER (ORDER BY day, k), max(day) OVER (PARTITION BY g ORDER BY k, v)"
    " FROM t",
    "SELECT u.k, name, (SELECT max(r) FROM (SELECT rank() OVER (ORDER BY t.v) AS r FROM t"
    " WHERE t.k = u.k)) AS last FROM u",
    "SELECT u.k, x.s FROM u, LATERAL (SELECT sum(t.v + u.k) OVER (ORDER BY t.v) AS s FROM t"
    " WHERE t.k < u.k) AS x",
    "SELECT k, (SELECT count(*) FROM (SELECT v, lag(v - u.v) OVER (ORDER BY v) AS p FROM t"
    " WHERE t.v <> u.v) WHERE p < 0) AS c FROM u",
    "SELECT k FROM u WHERE EXISTS (SELECT sum(v) OVER (ORDER BY k) FROM t WHERE t.k = u.k)",
    "SELECT s, sum(s) OVER (ORDER BY g) FROM"
    " (SELECT g, k, sum(v) OVER (PARTITION BY g ORDER BY k) AS s FROM t)",
    "SELECT k, count(DISTINCT v) OVER (PARTITION BY g ORDER BY k), sum(DISTINCT v) OVER"
    " (PARTITION BY g), avg(DISTINCT v) FILTER (WHERE b) OVER (ORDER BY k DESC) FROM t",
    "SELECT k, v, count(DISTINCT v % 2) OVER w, count(DISTINCT v) OVER (w ROWS BETWEEN 1"
    " PRECEDING AND UNBOUNDED FOLLOWING), count(*) OVER w FROM t WINDOW w AS (ORDER BY k, v)",
    "SELECT k, count(DISTINCT g) OVER (ORDER BY k GROUPS BETWEEN UNBOUNDED PRECEDING AND 1"
    " PRECEDING), sum(DISTINCT v) OVER (ORDER BY k RANGE BETWEEN 1 PRECEDING AND UNBOUNDED"
    " FOLLOWING) FROM t",
    "SELECT k, v, first_value(v IGNORE NULLS) OVER w, lag(v IGNORE NULLS) OVER w,"
    " lead(v, 2, -1 IGNORE NULLS) OVER w, nth_value(v, 2 IGNORE NULLS) OVER w, any_value(v) OVER w"
    " FROM t WINDOW w AS (PARTITION BY g ORDER BY k, v)",
    "SELECT k, v, last_value(v IGNORE NULLS) OVER (ORDER BY k, v ROWS UNBOUNDED PRECEDING),"
    " first_value(v IGNORE NULLS) OVER (ORDER BY k, v ROWS BETWEEN CURRENT ROW AND UNBOUNDED"
    " FOLLOWING), last_value(v IGNORE NULLS) OVER (ORDER BY k, v ROWS BETWEEN 2 PRECEDING AND 1"
    " FOLLOWING EXCLUDE CURRENT ROW) FROM t",
    "SELECT day, count(*) OVER (PARTITION BY g ORDER BY day RANGE INTERVAL 1 MONTH PRECEDING)"
    " FROM t",
    "SELECT ts, count(*) OVER (ORDER BY ts DESC RANGE BETWEEN INTERVAL 1 YEAR PRECEDING AND"
    " INTERVAL 1 MONTH FOLLOWING) FROM u",
    "SELECT day, count(*) OVER (PARTITION BY g ORDER BY day RANGE INTERVAL '1 month 1 day'"
    " PRECEDING) FROM t",
    "SELECT ts, count(*) OVER w, min(k) OVER (ORDER BY ts RANGE BETWEEN INTERVAL 2 DAY PRECEDING"
    " AND CURRENT ROW) FROM u WINDOW w AS (ORDER BY ts RANGE BETWEEN INTERVAL '1 month 2 days 3"
    " hours' PRECEDING AND INTERVAL 36 HOURS FOLLOWING)",
    "SELECT g, k, rank() OVER (PARTITION BY g ORDER BY k) AS r FROM t QUALIFY r <= 2",
    "SELECT g, k FROM t QUALIFY dense_rank() OVER (PARTITION BY g ORDER BY k DESC) <= 2",
    "SELECT * FROM (SELECT k, v, dense_rank() OVER (ORDER BY k) AS r FROM t) WHERE r = 2",
    "SELECT r, count(*) FROM (SELECT rank() OVER (ORDER BY v) AS r FROM t) WHERE r < 4 GROUP BY r",
    "SELECT k, g, min(v) OVER w, count(*) OVER w, avg(v) OVER w FROM (SELECT DISTINCT k, v, g FROM"
    " t) WINDOW w AS (ORDER BY k, v, g ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING EXCLUDE GROUP)",
    "SELECT k, g, sum(v) OVER w, last_value(v) OVER w FROM (SELECT DISTINCT k, v, g FROM t)"
    " WINDOW w AS (PARTITION BY k ORDER BY v, g ROWS 3 PRECEDING EXCLUDE TIES)",
    "SELECT k, v, b, count(DISTINCT v) OVER (w ROWS 1 PRECEDING), max(DISTINCT v) OVER (w ROWS 3"
    " PRECEDING), sum(DISTINCT v % 3) FILTER (WHERE b) OVER (w ROWS BETWEEN 1 PRECEDING AND 2"
    " FOLLOWING EXCLUDE CURRENT ROW) FROM t WINDOW w AS (ORDER BY k, v, b)",
    "SELECT k, count(DISTINCT v) OVER (PARTITION BY g ORDER BY k GROUPS 1 PRECEDING), avg(DISTINCT"
    " f) OVER (PARTITION BY g ORDER BY k RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING) FROM t",
    "SELECT day, count(DISTINCT g) OVER (ORDER BY day RANGE BETWEEN INTERVAL 1 MONTH PRECEDING AND"
    " CURRENT ROW) FROM t",
    "SELECT k, v, first(v IGNORE NULLS) OVER (ORDER BY k, v), last(v IGNORE NULLS) OVER w FROM t"
    " WINDOW w AS (PARTITION BY g ORDER BY k, v ROWS BETWEEN 3 PRECEDING AND CURRENT ROW)",
    "SELECT k, g.upper(), lag(v IGNORE NULLS) OVER (ORDER BY k, v, g), g.trim('a') FROM t",
]  # fmt: skip

# Ties are broken by all columns; DuckDB may break them otherwise.
OPEN: list[str] = [
    "SELECT g, v, row_number() OVER (ORDER BY g), ntile(2) OVER (ORDER BY g) FROM t",
    "SELECT g, v, lag(v) OVER (ORDER BY g), lead(v, 3) OVER (ORDER BY g), row_number() OVER ()"
    " FROM t",
    "SELECT g, v, first_value(v) OVER (ORDER BY g), last_value(v) OVER (ORDER BY g),"
    " nth_value(v, 2) OVER (PARTITION BY b ORDER BY g) FROM t",
    "SELECT g, v, sum(v) OVER (ORDER BY g ROWS 2 PRECEDING), max(v) OVER (ROWS 1 PRECEDING) FROM t",
    "SELECT g, v, first_value(v) OVER (ORDER BY g GROUPS 1 PRECEDING EXCLUDE TIES),"
    " last_value(v) OVER (ORDER BY g GROUPS BETWEEN CURRENT ROW AND 1 FOLLOWING) FROM t",
    "SELECT g, v, first(v) OVER (PARTITION BY g) FROM t",
    "SELECT g, k, v, sum(v) OVER w, min(v) OVER w, count(*) OVER w, avg(d) FILTER (WHERE b) OVER w,"
    " sum(f) OVER w FROM t WINDOW w AS (ORDER BY k ROWS 2 PRECEDING EXCLUDE GROUP)",
    "SELECT g, k, v, mean(v) OVER w, max(day) OVER w, count(v) OVER w, bool_and(b) OVER w,"
    " sum(d) FILTER (WHERE v > 2) OVER w FROM t WINDOW w AS (PARTITION BY g ORDER BY k DESC NULLS"
    " FIRST ROWS BETWEEN 3 PRECEDING AND 2 FOLLOWING EXCLUDE TIES)",
    "SELECT g, k, v, first_value(v) OVER w, last_value(v) OVER w, first_value(v IGNORE NULLS) OVER"
    " w, any_value(v) OVER w, last(v) OVER w FROM t"
    " WINDOW w AS (ORDER BY g ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING EXCLUDE GROUP)",
    "SELECT g, k, v, nth_value(v, 2) OVER w, nth_value(v, 2 IGNORE NULLS) OVER w, var_pop(v) OVER w"
    " FROM t WINDOW w AS (ORDER BY k ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING EXCLUDE TIES)",
    "SELECT g, k, v, count(*) OVER w, first_value(v) OVER w, max(v) OVER w FROM t"
    " WINDOW w AS (ORDER BY k ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING EXCLUDE TIES)",
    "SELECT g, k, v, sum(v) OVER w, last_value(v) OVER w FROM t"
    " WINDOW w AS (ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING EXCLUDE TIES)",
]

# DuckDB evaluates them over the rows whose frames meet a change.
RECOMPUTED: list[str] = [
    "SELECT ts, count(DISTINCT k) OVER (ORDER BY ts RANGE BETWEEN INTERVAL 1 MONTH PRECEDING AND"
    " CURRENT ROW) FROM u",
    "SELECT k, count(DISTINCT v) OVER (PARTITION BY g ORDER BY k GROUPS 1 PRECEDING EXCLUDE TIES),"
    " median(DISTINCT v % 2) OVER (PARTITION BY g ORDER BY k RANGE 1 PRECEDING),"
    " string_agg(DISTINCT (v % 2)::VARCHAR, ',' ORDER BY (v % 2)::VARCHAR) OVER (PARTITION BY g"
    " ORDER BY k) FROM t",
    "SELECT k, v, list(v) OVER (PARTITION BY g ORDER BY k, v ROWS 2 PRECEDING),"
    " string_agg(g, ',') OVER (PARTITION BY g ORDER BY k, v ROWS 1 PRECEDING) FROM t",
    "SELECT k, list(v ORDER BY v) OVER (PARTITION BY g ORDER BY k) FROM t",
    "SELECT k, list(DISTINCT v ORDER BY v) OVER (PARTITION BY g) FROM t",
    "SELECT k, median(v) OVER (PARTITION BY g ORDER BY k),"
    " quantile_cont(v, 0.25) OVER (PARTITION BY g) FROM t",
    "SELECT k, v, lag(v, 0 IGNORE NULLS) OVER (PARTITION BY g ORDER BY k, v) FROM t",
    "SELECT k, v, lag(v, k) OVER (PARTITION BY g ORDER BY k, v) FROM t WHERE k >= 0",
    "SELECT k, v, sum(v) OVER (PARTITION BY g ORDER BY k, v ROWS BETWEEN abs(k) PRECEDING AND"
    " CURRENT ROW) FROM t WHERE k IS NOT NULL",
    "SELECT k, v, list(v) OVER (PARTITION BY g ORDER BY k, v ROWS 2 PRECEDING EXCLUDE GROUP)"
    " FROM t",
    "SELECT k, v, string_agg(v::VARCHAR, '-') OVER w, list(v) FILTER (WHERE v > 1) OVER w,"
    " median(v) OVER w FROM (SELECT DISTINCT k, v FROM t)"
    " WINDOW w AS (ORDER BY k, v ROWS BETWEEN 2 PRECEDING AND 3 FOLLOWING EXCLUDE TIES)",
    "SELECT k, v, list(v) OVER (PARTITION BY g ORDER BY k, v ROWS UNBOUNDED PRECEDING EXCLUDE"
    " GROUP) FROM (SELECT DISTINCT k, v, g FROM t)",
    "SELECT v, fill(d) OVER (ORDER BY v), fill(f) OVER (ORDER BY v DESC NULLS FIRST), fill(k) OVER"
    " (ORDER BY v) FROM (SELECT v, min(d) AS d, min(f) AS f, min(k) AS k FROM t GROUP BY v)",
    "SELECT day, b, fill(v) OVER (PARTITION BY b ORDER BY day), fill(f) OVER (PARTITION BY b ORDER"
    " BY day DESC) FROM (SELECT day, b, min(nullif(v, 2)) AS v, max(f) AS f FROM t GROUP BY ALL)",
    "SELECT k, fill(d) OVER (PARTITION BY g ORDER BY k) FROM"
    " (SELECT k, g, min(d) AS d FROM t WHERE k IS NOT NULL GROUP BY k, g)",
    "SELECT k, arg_min(v, k) OVER (PARTITION BY g ORDER BY k, v ROWS 3 PRECEDING),"
    " bit_or(k) OVER (PARTITION BY g ORDER BY k) FROM t",
]  # fmt: skip
