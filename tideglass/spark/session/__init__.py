"""Spark sessions: Java, processes, settings."""
