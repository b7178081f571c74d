"""Jars of Maven Central for tests, kept in the user's cache; Maven fetches them."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

_POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>tests</groupId><artifactId>jars</artifactId><version>1</version><dependencies><dependency>
<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>
</dependency></dependencies></project>
"""


def java_missing() -> str | None:
    """What is lacking to run Java programs here, if anything."""
    if shutil.which("java") is None:
        return "there is no Java on the PATH (17 or newer)"
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(\d+)', said.stderr + said.stdout)
    if found is None or int(found[1]) < 17:
        return "Java is older than 17"
    return None


@dataclass(frozen=True)
class Jars:
    """An artifact with all that it needs."""

    group: str
    artifact: str
    version: str

    def missing(self) -> str | None:
        """What is lacking to have them here, if anything."""
        if not self._complete() and shutil.which("mvn") is None:
            return f"there is no Maven on the PATH to fetch {self.artifact} with"
        return None

    def folder(self) -> Path:
        """The folder with the jars, which the first one to come fetches."""
        jars = self._cache()
        jars.mkdir(parents=True, exist_ok=True)
        with (jars / ".lock").open("w") as lock, tempfile.TemporaryDirectory() as folder:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not self._complete():
                pom = Path(folder) / "pom.xml"
                pom.write_text(_POM.format(**vars(self)))
                copy = ["dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
                subprocess.run(["mvn", "-q", "-B", "-f", str(pom), *copy], check=True)
                (jars / ".complete").touch()
        return jars

    def _cache(self) -> Path:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(home) / f"{self.artifact}-{self.version}"

    def _complete(self) -> bool:
        return (self._cache() / ".complete").exists()
