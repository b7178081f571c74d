-- Queries that random search found wrong, kept for good; one a line, over the tables of plan_corpus.
SELECT sum(r1.v) FILTER (WHERE r1.d <> r1.k) OVER (PARTITION BY r1.k ORDER BY r1.v DESC) AS o0 FROM t AS r1
SELECT r1.k, n2.n, r3.small FROM t AS r1, generate_series(1, r1.k) AS n2(n) RIGHT JOIN w AS r3 ON r1.v = r3.small
SELECT count(r2.small) OVER (PARTITION BY r2.small ORDER BY r2.small DESC RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS o0 FROM w AS r2
SELECT avg(x.o0) AS a, sum(coalesce(x.o1, x.o0)) FILTER (WHERE x.o1 NOT IN (1, NULL)) AS b FROM (SELECT r.small AS o0, NULL AS o1 FROM w AS r) AS x
SELECT coalesce(x.o, r.small) AS a, x.o AS b, max(x.o) AS c, count(x.o) AS d FROM (SELECT DISTINCT NULL AS o FROM t) AS x FULL JOIN w AS r ON x.o = r.small GROUP BY ALL
SELECT list_sum([abs(r3.small), (SELECT count(*) FROM u AS r4 WHERE r4.v < r3.small)]) AS o0, r3.small AS o1 FROM w AS r3 WHERE r3.k2 BETWEEN r3.k2 AND 3
