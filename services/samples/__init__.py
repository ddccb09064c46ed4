"""What a training sample looks like on Kafka: written by the traffic generator, read by the trainer."""
