"""How a run starts: facts, decision, and where each input is read from."""
