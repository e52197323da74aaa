"""The JVM's own classes, which Spark's API does not show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession


def java_class(session: SparkSession, name: str) -> Any:
    """Return a class of Spark's JVM by its full name.

    If it were named part by part (`jvm.org.apache...`), the gateway would look for a class of each
    part's name in three hundred jars, each time: 1.3 ms of the processor instead of 0.05.
    """
    return getattr(session._jvm, name)  # noqa: SLF001  # the only door to the JVM's own classes


def compiled(
    session: SparkSession, parameters: Mapping[str, str], code: str, *, is_answering: bool = False
) -> Any:
    """Return some lines of Java as an object with `evaluate(values)`.

    For loops whose every turn would take several calls from Python to the JVM. Spark's own compiler
    of generated code compiles them, once; the first time costs 0.3 seconds of the processor.

    Args:
        session: Spark.
        parameters: Name -> full name of its class.
        code: The lines.
        is_answering: Whether they return an object.
    """
    known = vars(session._jvm)  # noqa: SLF001  # as classes are kept there
    if code not in known:
        known[code] = _compiled(session, parameters, code, is_answering=is_answering)
    return known[code]


def _compiled(
    session: SparkSession, parameters: Mapping[str, str], code: str, *, is_answering: bool
) -> Any:
    loader = java_class(session, "java.lang.Thread").currentThread().getContextClassLoader()
    kind = java_class(session, "java.lang.Class")
    evaluator = java_class(session, "org.codehaus.janino.ScriptEvaluator")()
    evaluator.setParentClassLoader(loader)  # knows the jars that Spark was started with
    evaluator.setParameters(
        java_array(session, "java.lang.String", *parameters),
        java_array(
            session,
            "java.lang.Class",
            *(kind.forName(name, True, loader) for name in parameters.values()),
        ),
    )
    evaluator.setThrownExceptions(
        java_array(session, "java.lang.Class", kind.forName("java.lang.Exception"))
    )
    if is_answering:
        evaluator.setReturnType(kind.forName("java.lang.Object"))
    evaluator.cook(code)
    return evaluator


def java_array(session: SparkSession, name: str, *values: object) -> Any:
    """Return an array of a class of the JVM."""
    gateway = session.sparkContext._gateway  # noqa: SLF001  # the same door
    made = gateway.new_array(java_class(session, name), len(values))
    for at, value in enumerate(values):
        made[at] = value
    return made
