"""The Kubernetes side: extender, watch, annotations, the server and its command."""
