"""What is typed: scripts, completion and colours."""
