"""DataFrames of Spark as inputs and outputs."""
