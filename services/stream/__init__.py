"""How workers share a stream: the ledger of leases, and batches of what they may train."""
