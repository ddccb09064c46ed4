"""The parameter server: shards that keep embeddings and dense parameters, and the worker's way to them."""
