"""Functions of the rows before the current one: LAG, LAST, ISFIRST, OVER, anomalies."""
