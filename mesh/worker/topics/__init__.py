"""The Kafka topics of a node: created, maintained, trimmed behind their readers."""
