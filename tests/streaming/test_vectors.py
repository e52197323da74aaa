"""The golden bytes of the wire, read by Spark: the same values that the mesh's codec reads."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path

import pytest
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

import schemas
from streaming.tables.columns import (
    _read_delivery,
    _sound_delivery,
    frame_messages_column,
    with_header,
)

pytestmark = pytest.mark.spark

FOLDER = Path(schemas.__file__).parent / "vectors"
VECTORS = json.loads((FOLDER / "vectors.json").read_text(encoding="utf-8"))


def vectors(schema: str) -> list[tuple[bytes, dict]]:
    found = [
        ((FOLDER / one["file"]).read_bytes(), one["value"])
        for one in VECTORS
        if one["schema"] == schema
    ]
    assert found
    return found


def rows_of(spark, name: str, cells: list) -> DataFrame:
    kind = "array<struct<key: string, value: binary>>" if name == "headers" else "binary"
    return spark.createDataFrame(list(enumerate(cells)), f"number int, {name} {kind}")


def values(frame: DataFrame, column: Column | str) -> list:
    return [row[0] for row in frame.orderBy("number").select(column).collect()]


def headers_of(spark, keys: list) -> DataFrame:
    return with_header(rows_of(spark, "key", keys), F.col("key"))


def deltas_of(spark, cells: list) -> list:
    return values(rows_of(spark, "value", cells), frame_messages_column()["offset_delta"])


def deliveries_of(spark, cells: list) -> DataFrame:
    rows = rows_of(spark, "headers", cells)
    read = rows.withColumn("delivery", _read_delivery(F.col("headers")))
    return read.withColumn("delivery", _sound_delivery())


def test_frame_headers_are_read_whole(spark):
    """Subject tables in blocks with and without sizes, gaps, flags and extensions: K10."""
    known = vectors("frame_header")
    rows = values(headers_of(spark, [data for data, _ in known]), F.to_json("header"))
    for row, (_, value) in zip(rows, known, strict=True):
        told = json.loads(row)
        for part in ("chain", "origin"):
            told[part].pop("topic")
            value[part].pop("topic")
        told["magic"] = b64decode(told["magic"]).hex()
        for era in told["origin"]["eras"]:
            era["domain"] = b64decode(era["domain"]).hex()
        told.pop("ext")
        value.pop("ext", None)
        assert told == value


def test_offsets_of_a_frames_messages_are_read_past_its_payloads(spark):
    known = vectors("frame_value")
    rows = deltas_of(spark, [data for data, _ in known])
    for row, (_, value) in zip(rows, known, strict=True):
        assert row == [message["offset_delta"] for message in value["messages"]]


def test_delivery_headers_are_read(spark):
    known = vectors("delivery")
    cells = [[("x", b"1"), ("mesh", data)] for data, _ in known]
    rows = values(deliveries_of(spark, cells), F.to_json("delivery"))
    for row, (_, value) in zip(rows, known, strict=True):
        told = json.loads(row)
        for name in ("version", "path", "partition", "generation", "offset"):
            assert told[name] == value[name]


@pytest.mark.parametrize("data", [b"", b"\x02", b"\x04" + b"\x00" * 60, b"\xff" * 40])
def test_bytes_that_are_something_else_are_null_and_no_failed_query(spark, data):
    """Broken bytes and unknown versions: the audit goes on and counts them."""
    assert values(headers_of(spark, [data]), "header") == [None]
    assert deltas_of(spark, [data]) in ([None], [[]])
    assert values(deliveries_of(spark, [[("mesh", data)], None, []]), "delivery") == [None] * 3
