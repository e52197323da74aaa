"""The wire in Avro, loaded once: `text(name)` for Spark, `parsed(name)` for fastavro.

Names are file names without `.v<N>.avsc`; the version is the major version that every
record carries in its first field. Spec: kafka.md 2.
"""

from schemas.registry import VERSION, names, parsed, text

__all__ = ["VERSION", "names", "parsed", "text"]
