"""Traffic made up for demos, tests and benchmarks: a seeded shape or a recorded trace, sent to Kafka."""
