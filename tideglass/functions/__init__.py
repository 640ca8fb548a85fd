"""The catalogue of functions: signature, meaning and translation to SQL, one module a family."""
