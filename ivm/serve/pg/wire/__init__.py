"""PostgreSQL's protocol on the wire: messages, lines, logins and errors."""
