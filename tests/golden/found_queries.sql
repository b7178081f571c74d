-- Queries that random search found wrong, kept for good; one a line, over the tables of plan_corpus.
SELECT sum(r1.v) FILTER (WHERE r1.d <> r1.k) OVER (PARTITION BY r1.k ORDER BY r1.v DESC) AS o0 FROM t AS r1
SELECT r1.k, n2.n, r3.small FROM t AS r1, generate_series(1, r1.k) AS n2(n) RIGHT JOIN w AS r3 ON r1.v = r3.small
SELECT count(r2.small) OVER (PARTITION BY r2.small ORDER BY r2.small DESC RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS o0 FROM w AS r2
