"""Spark maps the archive of its classes: one that does not fit would be passed over in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from mesh.local.software import spark_classes

pytestmark = pytest.mark.spark


def test_the_archive_fits_the_sessions_that_are_started(spark):
    classes = spark_classes()
    assert classes is not None
    archive = classes.find()
    assert archive is not None, "`python -m mesh.local.software` makes it, as `make test` does"
    pid = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    assert str(archive) in Path(f"/proc/{pid}/maps").read_text()
