"""Tests in containers have an engine and our images."""

from __future__ import annotations

from tests.docker_engine import audit_image, docker_engine, kafka_image, node_image

__all__ = ["audit_image", "docker_engine", "kafka_image", "node_image"]
