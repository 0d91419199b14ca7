"""What the formats of several schedulers of Kubernetes have in common: fields, amounts, pods."""
