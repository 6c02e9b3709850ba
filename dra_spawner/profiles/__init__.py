"""The profile language: from ``device_claims`` in a profile to claims and pod changes, pure."""
