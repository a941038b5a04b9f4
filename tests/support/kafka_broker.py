"""A Kafka broker in this process: the one that librdkafka tests its own clients with.

It speaks Kafka's protocol on a local port, and keeps topics in memory. Retention, compaction and
transactions it has not.
"""

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import confluent_kafka

ERROR_BYTES = 512
FLUSH_SECONDS_MAX = 20


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker that runs."""

    address: str

    def send(self, topic: str, partition: int, values: Sequence[bytes | None]) -> None:
        """Append records to a partition, in order."""
        producer = confluent_kafka.Producer({"bootstrap.servers": self.address})
        for value in values:
            producer.produce(topic, value=value, partition=partition)
        assert producer.flush(FLUSH_SECONDS_MAX) == 0


@contextmanager
def kafka_broker(topic: str, *, partitions: int) -> Iterator[Broker]:
    """Run a broker with a topic."""
    library = _library()
    error = ctypes.create_string_buffer(ERROR_BYTES)
    client = library.rd_kafka_new(0, library.rd_kafka_conf_new(), error, ERROR_BYTES)
    assert client, error.value
    cluster = library.rd_kafka_mock_cluster_new(client, 1)
    try:
        made = library.rd_kafka_mock_topic_create(cluster, topic.encode(), partitions, 1)
        assert made == 0
        yield Broker(library.rd_kafka_mock_cluster_bootstraps(cluster).decode())
    finally:
        library.rd_kafka_mock_cluster_destroy(cluster)
        library.rd_kafka_destroy(client)


def _library() -> ctypes.CDLL:
    (path,) = (
        Path(confluent_kafka.__file__).parent.with_name("confluent_kafka.libs").glob("librdkafka*")
    )
    library = ctypes.CDLL(str(path))
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    for name, result, arguments in (
        ("conf_new", pointer, []),
        ("new", pointer, [ctypes.c_int, pointer, text, ctypes.c_size_t]),
        ("destroy", None, [pointer]),
        ("mock_cluster_new", pointer, [pointer, ctypes.c_int]),
        ("mock_cluster_destroy", None, [pointer]),
        ("mock_cluster_bootstraps", text, [pointer]),
        ("mock_topic_create", ctypes.c_int, [pointer, text, ctypes.c_int, ctypes.c_int]),
    ):
        function = getattr(library, f"rd_kafka_{name}")
        function.restype, function.argtypes = result, arguments
    return library
