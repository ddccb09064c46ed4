"""Free ports on loopback."""

from __future__ import annotations

import socket

LOOPBACK = "127.0.0.1"


def free_ports(count: int) -> tuple[int, ...]:
    """Ports that nobody listens on now. Another process may take one before it is used.

    >>> len(set(free_ports(3)))
    3
    """
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return tuple(each.getsockname()[1] for each in sockets)
    finally:
        for each in sockets:
            each.close()


def is_free(port: int) -> bool:
    """Whether a server could listen on this port now.

    >>> listener = socket.create_server((LOOPBACK, 0))
    >>> is_free(listener.getsockname()[1])
    False
    >>> listener.close()
    """
    with socket.socket() as probe:
        # As servers do: connections of an earlier server that linger do not count as taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
