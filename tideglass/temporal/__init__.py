"""Pure temporal kernels over Arrow tables: no Spark, no input or output, no clock."""
