"""PostgreSQL's log as a stream of messages: the slot, the protocol, transactions."""
