"""The allocator compared with kube-scheduler's own: run ``python -m tests.oracle --help``."""
