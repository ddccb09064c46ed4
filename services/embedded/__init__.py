"""Servers for a machine that has none: Kafka and Redis that end with the process that owns them."""
