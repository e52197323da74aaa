"""A whole mesh on this machine: Java, embedded Kafka, processes that are started again."""
