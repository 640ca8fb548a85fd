"""Inputs and outputs: formats, file inputs, file outputs."""
