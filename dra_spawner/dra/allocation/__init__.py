"""The allocator: what satisfies a claim, the search, and reasons where nothing does."""
