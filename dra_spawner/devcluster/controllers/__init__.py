"""kube-controller-manager's part: what reacts to changes in the store, and the loop and queue it is made of."""
