"""Parts of the product put together in one process: workers, commands and clients on in-memory Kafka."""
