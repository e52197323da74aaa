"""Golden bytes of every schema, compared both ways with the codec and with fastavro.

`schemas/vectors/vectors.json` says what each file holds; bytes and fixed are hexadecimal there.
Spark reads the same files in tests/streaming. After a deliberate change of the wire:

    MESH_REWRITE_VECTORS=1 .venv/bin/python -m pytest tests/unit/wire/test_vectors.py

and review the difference of vectors.json as prose. Spec: K10, schemas/COMPATIBILITY.md.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.unit.wire.vector_cases import VECTORS, Vector, by_fastavro

FOLDER = Path(__file__).parents[3] / "schemas" / "vectors"
INDEX = FOLDER / "vectors.json"
REWRITE = bool(os.environ.get("MESH_REWRITE_VECTORS"))


def readable(value: object) -> object:
    match value:
        case bytes():
            return value.hex()
        case dict():
            return {key: readable(content) for key, content in value.items()}
        case list() | tuple():
            return [readable(content) for content in value]
    return value


@pytest.fixture(scope="module", autouse=True)
def rewritten() -> None:
    """Write all golden bytes anew when the environment asks for it."""
    if not REWRITE:
        return
    for old in FOLDER.glob("*.bin"):
        old.unlink()
    described = []
    for vector in VECTORS:
        data = vector.write()
        (FOLDER / f"{vector.name}.bin").write_bytes(data)
        described.append(
            {
                "file": f"{vector.name}.bin",
                "schema": vector.schema,
                "describes": vector.describes,
                "value": readable(by_fastavro(vector.schema, data)),
            }
        )
    INDEX.write_text(json.dumps(described, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def described(rewritten: None) -> Mapping[str, Mapping[str, Any]]:
    entries = json.loads(INDEX.read_text(encoding="utf-8"))
    return {entry["file"].removesuffix(".bin"): entry for entry in entries}


def golden(vector: Vector) -> bytes:
    return (FOLDER / f"{vector.name}.bin").read_bytes()


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_golden_bytes_are_still_written(vector: Vector) -> None:
    """What this program writes has not changed by a byte. Spec: R19."""
    assert vector.write() == golden(vector)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_golden_bytes_are_read(vector: Vector) -> None:
    """Golden bytes give the value they were made of, whoever wrote them. Spec: R19."""
    assert vector.decode(golden(vector)) == vector.value


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_golden_bytes_mean_the_same_to_fastavro(
    vector: Vector, described: Mapping[str, Mapping[str, Any]]
) -> None:
    """A reader with nothing but the schema finds what vectors.json says."""
    entry = described[vector.name]
    assert entry["schema"] == vector.schema
    assert readable(by_fastavro(vector.schema, golden(vector))) == entry["value"]


def test_every_schema_of_the_wire_has_a_vector(
    described: Mapping[str, Mapping[str, Any]],
) -> None:
    """A new schema of the wire comes with golden bytes, and no file is stray."""
    wire = [
        path.name.partition(".")[0]
        for folder in ("data", "control", "state", "tree")
        for path in (FOLDER.parent / folder).glob("*.avsc")
    ]
    assert sorted({entry["schema"] for entry in described.values()}) == sorted(wire)
    assert sorted(described) == sorted(vector.name for vector in VECTORS)
    assert sorted(path.stem for path in FOLDER.glob("*.bin")) == sorted(described)
