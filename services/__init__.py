"""Everything that runs: adapters to Kafka, Redis and worker pools, the controller, the API, the CLI."""
