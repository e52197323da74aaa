"""Tests in containers have an engine and our images."""

from __future__ import annotations

from tests.docker_engine import docker_engine, kafka_image, node_image

__all__ = ["docker_engine", "kafka_image", "node_image"]
