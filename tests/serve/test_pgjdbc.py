"""PostgreSQL's driver for Java, by which DBeaver and many other programs come."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.serve.serving import Served
from tests.support.maven import Jars, java_missing

pytestmark = pytest.mark.full(smoke=1)

DRIVER = Jars("org.postgresql", "postgresql", "42.7.7")
PROGRAM = Path(__file__).with_name("PgJdbc.java")
FOUND = """\
schemas: information_schema| main| pg_catalog| s|
tables: revenue|MATERIALIZED VIEW| customers|TABLE| orders|TABLE| t|TABLE| big|VIEW|
columns: id|int4| customer|int4| amount|numeric| placed|timestamp|
key: id|
keys: customers|customer|
indexes: orders_id_pkey| by_customer|
found: n11
batch: 100
fetched: 1000
again: 23505
slow: 57014
read only: 25006
"""


def test_what_java_programs_do(shop: Served) -> None:
    missing = java_missing() or DRIVER.missing()
    if missing is not None and os.environ.get("IVM_SERVERS") != "required":
        pytest.skip(f"NOT RUN: {missing}")
    assert missing is None
    classes = os.pathsep.join(map(str, DRIVER.folder().glob("*.jar")))
    found = subprocess.run(
        ["java", "-cp", classes, str(PROGRAM), str(shop.port)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (found.stdout, found.returncode) == (FOUND, 0), found.stderr
