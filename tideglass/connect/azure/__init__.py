"""What services of Azure have in common: their addresses and stand-ins, secrets, tokens of Entra ID."""
