"""The console: a page in the browser, its files, and what it is told of the database."""
