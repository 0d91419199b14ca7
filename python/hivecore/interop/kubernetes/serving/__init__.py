"""Answers over HTTP, and what operators see of them: metrics and logs."""
