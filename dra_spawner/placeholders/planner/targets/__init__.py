"""What is wanted: the policy, its limits, the shapes of placeholders, and the pods that they become."""
