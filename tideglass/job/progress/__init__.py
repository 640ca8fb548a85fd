"""How far a run came, kept so that the next one can go on."""
