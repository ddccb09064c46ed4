"""A Ray cluster whose head goes and comes back at a word from standard input.

A program of its own: whoever is connected to a head that is lost may be ended by Ray.
"""

import sys


def main(port: int) -> None:
    """Run until the input ends."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 8, "num_gpus": 0, "gcs_server_port": port}
    )
    cluster.add_node(num_cpus=8, num_gpus=4)
    words = {"go": cluster.head_node.kill_gcs_server, "come back": cluster.head_node.start_gcs_server}
    _say(cluster.address)
    for line in sys.stdin:
        words[line.strip()]()
        _say("done")
    cluster.shutdown()


def _say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]))
