"""SQL in notebooks: the magics of `%load_ext ivm`."""
