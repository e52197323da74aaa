"""`mesh demo`: a real feed over three Kafka clusters, certified live. Spec: DESIGN 10."""
