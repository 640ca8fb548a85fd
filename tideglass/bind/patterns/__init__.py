"""MATCH_RECOGNIZE bound: its values, its rules and the automaton of its pattern."""
