"""The materialized views: their circuit, their rows, their time, and what breaks them."""
