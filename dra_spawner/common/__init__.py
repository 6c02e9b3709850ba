"""What every package may import: types of JSON, owned tasks, calls in threads, lasting problems, addresses of pages."""
