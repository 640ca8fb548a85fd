"""What a restart would cost: events, time and memory."""
