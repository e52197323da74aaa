"""The JVM's own classes, which Spark's API does not show."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def java_class(session: SparkSession, name: str) -> Any:
    """Return a class of Spark's JVM by its full name.

    Asked for part by part (`jvm.org.apache...`), the gateway looks for a class of the name of each
    part in three hundred jars, each time: 1.3 ms of the processor in place of 0.05.
    """
    return getattr(session._jvm, name)  # noqa: SLF001  # the only door to the JVM's own classes
