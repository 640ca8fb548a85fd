"""Where rows go: sinks that take each batch exactly once, and readers of what they wrote."""
