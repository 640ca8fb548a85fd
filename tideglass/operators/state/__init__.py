"""State of operators: logs of chunks by time bucket, and buffers that reorder."""
