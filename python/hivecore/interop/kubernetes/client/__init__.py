"""What a scheduler asks of Kubernetes: objects, watches, bindings, leases."""
