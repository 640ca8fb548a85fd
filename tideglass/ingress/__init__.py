"""From events to rows with a system timestamp: time policies, partitions, scans."""
