"""A mesh for the tests of your application, in three forms with one interface.

- `mesh.testing.memory.InMemoryMesh`: the real nodes on Kafka in memory; starts in milliseconds,
  and waiting takes no time.
- `mesh.testing.embedded.EmbeddedMesh`: Kafka from jars and a process per node; wants Java 17.
- `mesh.testing.containers.MeshContainers`: our images under testcontainers; wants a Docker engine.

`mesh.testing.fixtures` has pytest fixtures. Each form is imported by itself, so that a unit test
loads neither Java's nor Docker's part.
"""

from __future__ import annotations

from mesh.testing.under_test import MeshUnderTest, TopologyLike

__all__ = ["MeshUnderTest", "TopologyLike"]
