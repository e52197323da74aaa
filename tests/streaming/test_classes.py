"""Spark maps the archive of its classes, if one was made: one that does not fit is passed over."""

from __future__ import annotations

from pathlib import Path

import pytest

from mesh.local.software import spark_classes

pytestmark = pytest.mark.spark


def test_the_archive_fits_the_sessions_that_are_started(spark):
    classes = spark_classes()
    assert classes is not None
    archive = classes.find()
    pid = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    mapped = Path(f"/proc/{pid}/maps").read_text()
    assert (str(archive) in mapped) == (archive is not None)
