-- Queries that random search found wrong, kept for good; one a line, over the tables of plan_corpus.
SELECT sum(r1.v) FILTER (WHERE r1.d <> r1.k) OVER (PARTITION BY r1.k ORDER BY r1.v DESC) AS o0 FROM t AS r1
