"""The Kafka topics of a node: made, kept, emptied behind their readers."""
