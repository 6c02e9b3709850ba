"""kube-scheduler's own rules: filters, scores, preemption."""
