"""How fast samples arrive and are trained, and how old the oldest untrained one is, from Kafka's offsets."""
