"""A fleet's auditor, in a process of its own. Spec: DESIGN 7, lab.md 2."""

from __future__ import annotations

import importlib.util
import sys

from mesh.errors import missing_package
from mesh.local.fleet import Fleet
from mesh.local.processes import Process, spawn
from mesh.local.software import with_spark_classes


def spawn_auditor(fleet: Fleet) -> Process:
    """Start the auditor of a fleet; it takes ten seconds or more until it audits.

    Raises:
        StartError: PySpark is not installed.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise missing_package("the auditor needs PySpark", "audit")
    return spawn(
        [
            *(sys.executable, "-m", "streaming", "-f", str(fleet.file)),
            *fleet.bootstrap_options,
            *("--checkpoint", str(fleet.directory / "audit"), "--brief"),
        ],
        name="the auditor",
        log=fleet.directory / "log" / "auditor.log",
        env=with_spark_classes(),
    )
