"""What a worker tells over HTTP: whether it lives and serves, and figures for Prometheus."""
