"""What every package may import: types of JSON, tasks with an owner, calls in threads, addresses of pages."""
