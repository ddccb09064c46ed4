"""The Kafka that carries the samples: there, and with the topics that the jobs train on."""

from __future__ import annotations

from collections.abc import Iterator

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._metadata import ClusterMetadata, TopicMetadata

from services.doctor.finding import Finding, Verdict
from services.settings import JobSettings, Settings
from services.settings.root import KafkaSettings


def check_kafka(settings: Settings) -> Iterator[Finding]:
    """The cluster, then the topic of each job."""
    try:
        cluster = _ask(settings.kafka)
    except KafkaException as error:
        remedy = "start Kafka, or correct kafka.bootstrap and kafka.options (PENSTOCK_KAFKA__BOOTSTRAP)"
        reason = error.args[0].str()
        yield Finding("Kafka", Verdict.WRONG, f"{settings.kafka.bootstrap} does not answer: {reason}", remedy)
        return
    detail = f"{len(cluster.brokers)} broker(s), {len(cluster.topics)} topic(s)"
    yield Finding("Kafka", Verdict.OK, detail)
    for name, job in settings.jobs.items():
        yield _topic(name, job, cluster.topics.get(job.topic))


def _ask(kafka: KafkaSettings) -> ClusterMetadata:
    admin = AdminClient(kafka.client(**{"log_level": 0, "socket.timeout.ms": round(kafka.timeout_s * 1000)}))
    # All topics: asking for one by name would create it where topics are created automatically.
    return admin.list_topics(timeout=kafka.timeout_s)


def _topic(name: str, job: JobSettings, topic: TopicMetadata | None) -> Finding:
    what = f"topic of {name}"
    if topic is None:
        remedy = f"create it, or correct jobs.{name}.topic"
        return Finding(what, Verdict.WRONG, f"{job.topic!r} does not exist", remedy)
    leaderless = sorted(p for p, facts in topic.partitions.items() if facts.leader < 0)
    if leaderless:
        remedy = "see why their brokers are down"
        return Finding(what, Verdict.WRONG, f"partitions {leaderless} have no leader", remedy)
    return Finding(what, Verdict.OK, f"{job.topic!r} has {len(topic.partitions)} partition(s)")
