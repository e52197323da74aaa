"""What a worker serves over HTTP: whether it lives and serves, and figures for Prometheus."""
