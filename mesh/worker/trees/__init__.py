"""The tree layer of a node on Kafka: what its leader reads, writes and makes. Spec: kafka.md 1."""
