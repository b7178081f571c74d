"""Crossing points: up to how many rows the small way is the faster one.

Law: both ways give the same, so any number from 1 on may stand here (tests run both, by
`tests.support.thresholds`). The numbers are of the machine the project was measured on, an AMD EPYC
with 2 cores, in CPython 3.11; `benchmarks/micro/micro_thresholds.py` measures those that are calls
of their own.

Read as `thresholds.NAME`, so that a test can set them. What bounds sizes or memory, the ratio of
two costs, and the sizes of caches stand in the modules they are of.
"""

from __future__ import annotations

# Plain Python beats numpy's fixed cost of about a microsecond a call, up to …

HASHED_ROWS = 2
"""rows hashed as plain integers (`values.hashing`)"""
HASHED_STRINGS = 256
"""strings that are hashed one by one, through a memo (`values.hashing`)"""
TUPLE_ROWS = 64
"""rows of a batch that is consolidated as tuples in a dict (`values.canonical`)"""
SORTED_CODES = 16
"""codes sorted by Python (`values.sort`)"""
LABELLED_ROWS = 64
"""strings looked up in the dictionary one by one (`values.dictionary`)"""
SEARCHED_RANGES = 32
"""ranges searched one after the other (`values.ranges`)"""
CUT_RANGES = 16
"""ranges cut out of blocks one by one (`ordered.gather`)"""
ADDED_ROWS = 8
"""rows added up in Python (`aggregates.accumulators`)"""
FLOAT_LANES = 32
"""exact sums of floats rounded in Python (`aggregates.float_sum`)"""
ARROW_ROWS = 16
"""rows of an Arrow table taken as Python rows (`ingest.arrow_rows`)"""

# One look-up by another beats what is set up for all of them at once, up to …

FIRST_KEYS = 4
"""keys whose first row is looked up by itself (`arrangement.first_rows`)"""
FIRST_ROWS = 8
"""rows wanted of a key, or in the write buffer, that are merged one by one (the same)"""
PROBES = 32
"""probes of a run that are binary searches, without its bucket index (`arrangement.run`)"""
RANGE_ROWS = 64
"""rows of a range that are tested one by one, without the tree (`arrangement.max_tree`)"""
BLOCK_SEARCHES = 16
"""rows that are each found by themselves in a block (`ordered.sorted_rows`)"""
BLOCK_CHOICES = 256
"""rows that each find their block by themselves (`ordered.sorted_rows`)"""
BLOCK_EDITS = 8
"""rows cut into a block one by one (`ordered.blocks`)"""
NEAR_RANGES = 16
"""ranges around whose keys the rows are read (`ordered.key_search`)"""
TOPK_PARTITIONS = 4
"""partitions for which the state is read twice (`ordered.topk`)"""
WRITTEN_ROW_IDS = 64
"""row ids written into the statement instead of lent as a table (`capture.row_diff`)"""
APPENDED_ROWS = 256
"""rows given to DuckDB's appender; lending a batch costs 0.5 ms (`warehouse.appender`)"""

# What is set up for all of them pays, from …

FILTERED_KEYS = 256
"""keys of which a Bloom filter is made and asked (`arrangement.bloom`)"""
RADIX_ROWS = 512
"""rows sorted digit by digit; fewer by one sort of whole numbers (`values.radix_sort`)"""
SCATTERED_ROWS = 512
"""rows grouped by scattering; fewer by sorting (`values.group_numbers`)"""
TAKEN_ROWS = 1 << 12
"""rows taken by numpy's method; fewer by an index (`values.column`)"""
HALVED_KEYS = 1 << 12
"""keys that may be an update's, each twice, and then are looked up once (`arrangement`)"""
LATE_ROWS = 1 << 16
"""rows of a run sorted when it is read: of 10⁵ it takes 2 ms (`arrangement.late_run`)"""
JOINED_LABELS = 256
"""encoded rows for which a few other strings are given labels, to join them (`values.column`)"""
REWRITTEN_ROWS = 64
"""changed rows, above which the blocks between them are written anew too (`ordered.blocks`)"""
QUANTILE_ROWS = 2000
"""rows of a group whose quantiles are found without reading them (`aggregates.group_rows`)"""
UPDATED_ROWS = 15_000
"""rows of a table with a key, for each column that changes, updated in place again, which beats
deletion and insertion: DuckDB writes the columns anew. One column of 10⁷ rows, at 10³, 10⁴ and 10⁵:
90, 110, 120 against 30, 68, 320 ms; three: 390, 440, 480 (`warehouse.flush`)"""
