"""Containers of Azure Cosmos DB as outputs."""
