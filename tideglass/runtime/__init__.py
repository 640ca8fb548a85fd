"""What hosts programs and kernels in one process: chunks, state, stages, the local driver."""
