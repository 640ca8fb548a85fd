"""Window aggregates: hopping (tumbling and snapshot too), sliding and session windows."""
