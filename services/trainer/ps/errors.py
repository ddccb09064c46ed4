"""What a worker meets at the parameter server.

ShardError
├── ShardUnavailable   nobody answers there: look where it is now, and ask again
├── ShardMissing       the store knows no such shard: start it
├── ShardSuperseded    another process of it was started since: this one must not go on
├── SnapshotMisfit     its snapshot is of a model of another size: a person must look
├── ShardMoved         what was asked for is served elsewhere: look in the store, and ask again
└── ShardRefused       it answers and says no: a person must look
"""

from __future__ import annotations


class ShardError(Exception):
    """Anything that keeps parameters from being pulled or pushed, in an expected way."""


class ShardUnavailable(ShardError):
    """No answer, or half of one."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"the parameter server's shard at {where} does not answer: {why}")


class ShardMissing(ShardError):
    """The store does not tell where it is."""

    def __init__(self, job: str, shard: int) -> None:
        super().__init__(
            f"shard {shard} of job {job!r} is not in the store; "
            f"start it: penstock shard --job {job} --shard {shard}"
        )


class ShardSuperseded(ShardError):
    """Another process is this shard by now."""

    def __init__(self, shard: int, *, epoch: int, newest: int) -> None:
        self.shard = shard
        super().__init__(
            f"process {epoch} of shard {shard} was superseded by process {newest}, whose word alone counts"
        )


class SnapshotMisfit(ShardError):
    """What is to be restored does not fit the settings."""

    def __init__(self, there: int, here: int) -> None:
        super().__init__(
            f"the snapshot has embeddings of {there} numbers, the settings ask for {here}; set "
            "parameters.dim back, or give the shards another parameters.directory"
        )


class ShardMoved(ShardError):
    """A slot is not served there, or not just now. Nothing was done."""

    def __init__(self, where: str) -> None:
        super().__init__(f"the parameter server's shard at {where} does not serve all that was asked for")


class ShardRefused(ShardError):
    """The shard does not do what it was asked."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"the parameter server's shard at {where} refused: {why}")
