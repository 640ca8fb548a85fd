"""What a running job measures, for programs that watch it: Prometheus, JSON lines, the diagnostic log."""
