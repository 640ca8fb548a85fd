"""MATCH_RECOGNIZE: the operator and its non-deterministic automaton."""
